/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which bytes lie where, in each process, over time: built from mappings, answered from file bytes
 * (never from memory that carries breakpoints). Read-only after space_freeze(); then safe to share.
 */
#ifndef PTBPF_IMAGE_SPACE_H
#define PTBPF_IMAGE_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "image/object.h"

struct space;

struct space_mapping {
	pid_t pid;
	uint64_t addr, len, pgoff;
	uint64_t from_ns, to_ns;     /* to_ns UINT64_MAX: until the end */
	const char *path;            /* as recorded */
	const struct object *object; /* NULL: bytes are not to be had */
	uint32_t id;                 /* of (file, build-id): equal for equal bytes */
};

struct space_options {
	const char *snapshot_dir; /* where images/ is, also after the snapshot was moved; or NULL */
	const char *symfs;        /* prefix for recorded paths; or NULL */
};

int space_new(const struct space_options *options, struct space **out);
void space_free(struct space *space);

struct space_map_request {
	pid_t pid;
	uint64_t addr, len, pgoff, time_ns;
	const char *path;
	const uint8_t *build_id;
	size_t build_id_size;
};

/* A mapping that appeared at a time; what it covers ends there. 0, -ENOMEM. */
int space_map(struct space *space, const struct space_map_request *request);
/* exec: everything of @pid ends at @time_ns. */
int space_exec(struct space *space, pid_t pid, uint64_t time_ns);
/* fork: the child starts with its parent's mappings. */
int space_fork(struct space *space, pid_t parent, pid_t child, uint64_t time_ns);
/* Resolves files and sorts. Missing or different files are listed, not errors. */
int space_freeze(struct space *space);

/* Mapped files that are missing, or whose build-id differs: path and reason. By path. */
struct space_missing {
	const char *path;
	const char *reason; /* "no such file", "build-id differs: file X, recorded Y", ... */
	bool needed;        /* decoding met code of it */
};
size_t space_missing(const struct space *space, const struct space_missing **missing);
/* Marks what lies at (pid, addr, time) as needed; from any thread. */
void space_need(const struct space *space, pid_t pid, uint64_t addr, uint64_t time_ns);

/*
 * The mapping in force at (pid, addr, time), or else the one nearest in time: clocks are fitted,
 * and code runs only where it is mapped. NULL: never mapped. No allocation.
 */
const struct space_mapping *space_find(const struct space *space, pid_t pid, uint64_t addr,
				       uint64_t time_ns);
/* All mappings of @pid, by from_ns then addr. */
size_t space_mappings(const struct space *space, pid_t pid, const struct space_mapping ***mappings);

/* Up to @size bytes at @addr; the count read; 0: no image. */
size_t space_read(const struct space *space, pid_t pid, uint64_t addr, uint64_t time_ns, void *buf,
		  size_t size);

/* Name of the code at @addr: symbol (NULL unknown), its start address in memory, and object. */
struct space_name {
	const struct symbol *symbol;
	const struct space_mapping *mapping;
	uint64_t start; /* run-time address of the symbol's start; mapping start without symbol */
};
bool space_name(const struct space *space, pid_t pid, uint64_t addr, uint64_t time_ns,
		struct space_name *name);

#endif
