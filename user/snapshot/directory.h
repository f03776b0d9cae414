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
	char *part_path;  /* while writing; absolute, as final_path */
	char *final_path; /* after directory_publish(); paths inside perf.data name it already */
	int fd; /* of the directory; flock'ed while the writer lives, so that leftovers are
		   recognised */
	int parent_fd;
	uid_t owner_uid; /* (uid_t)-1: as created */
	gid_t owner_gid;
};

/* No directory: safe to abandon and close. */
#define SNAPSHOT_DIRECTORY_NONE                                    \
	{                                                          \
		.fd = -1, .parent_fd = -1, .owner_uid = (uid_t)-1, \
	}

/*
 * Creates @parent, with its parents, unless it is there: what is created belongs to the owner.
 * 0; -errno, also when nothing can be created in it: to know that before anything is recorded.
 */
int directory_prepare(const char *parent, uid_t owner_uid, gid_t owner_gid);

/*
 * Creates PARENT (with its parents) and PARENT/NAME-...-SEQ.part/images; a taken SEQ gives the next
 * free one. Unless @owner_uid is (uid_t)-1 all that is created belongs to that user. 0 or -errno,
 * *dir then holds nothing.
 */
int directory_create(const char *parent, const char *name, uint64_t sequence, uid_t owner_uid,
		     gid_t owner_gid, struct snapshot_directory *dir);
/*
 * Gives every file to the owner, fsyncs, and renames .part to its final name. If someone else has
 * taken that name meanwhile the next free SEQ is used and final_path changed. 0 or -errno: the
 * .part is still there and can be abandoned.
 */
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
