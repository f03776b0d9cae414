/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The snapshot directory NAME-YYYYmmdd-HHMMSS-SEQ/, mode 0700, written as .part and renamed when
 * complete. Nothing is ever overwritten.
 */
#ifndef PTBPF_SNAPSHOT_DIRECTORY_H
#define PTBPF_SNAPSHOT_DIRECTORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct snapshot_directory {
	char *part_path;  /* while writing */
	char *final_path; /* after directory_publish(); paths inside perf.data name it already */
	int fd;           /* of the directory */
	int lock_fd;      /* flock'ed while the writer lives, so that leftovers are recognised */
};

/*
 * Creates PARENT (with its parents) and PARENT/NAME-...-SEQ.part/images. With @owner_uid >= 0 all
 * belongs to that user. 0 or -errno.
 */
int directory_create(const char *parent, const char *name, uint64_t sequence, uid_t owner_uid,
		     gid_t owner_gid, struct snapshot_directory *dir);
/* fsyncs and renames .part to its final name (next free SEQ if taken). */
int directory_publish(struct snapshot_directory *dir);
/* Removes the .part and all in it (best effort) and frees @dir. NULL members are fine. */
void directory_abandon(struct snapshot_directory *dir);
void directory_close(struct snapshot_directory *dir);

/*
 * Leftovers of dead writers in @parent: each .part without a living lock holder is removed, or,
 * when its perf.data and snapshot.json are whole, published. Counts what was done. 0 or -errno.
 */
int directory_recover(const char *parent, unsigned int *removed, unsigned int *recovered);

#endif
