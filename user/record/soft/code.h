/* SPDX-License-Identifier: GPL-2.0-only */
/* The memory of one traced process: its executable mappings, its instructions, its data. */
#ifndef PTBPF_RECORD_SOFT_CODE_H
#define PTBPF_RECORD_SOFT_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/vec.h"
#include "image/insn.h"
#include "record/soft/block.h"

struct code_map {
	uint64_t start, end, offset;
	uint64_t inode;
	bool changeable; /* its bytes may change without a system call that the stepper sees */
	bool special;    /* vdso, uprobes' page */
	int file_fd;     /* -1: not open */
	char *path;      /* "" anonymous */
};

/* What the stepper must know beyond struct insn. */
enum code_kind {
	CODE_PLAIN,
	CODE_SYSCALL,   /* tracing ends by the instruction, without an address */
	CODE_INTERRUPT, /* INT n, INT3: tracing ends before it */
	CODE_FAR,       /* far call, jump, return; IRET */
	CODE_PUSHF,
	CODE_LOAD_SS, /* the trap comes one instruction later */
	CODE_XBEGIN,
};

struct code_insn {
	struct insn insn;
	uint8_t kind; /* enum code_kind */
};

#define CODE_CACHE 8192u

struct code_slot {
	uint64_t ip; /* 0: empty */
	struct code_insn code;
};

struct code {
	pid_t pid;
	int mem_fd;
	VEC(struct code_map) maps;        /* executable ones, by address */
	VEC(struct block_region) regions; /* while the mappings are read */
	uint64_t rseq;                    /* of its main thread: the kernel writes there */
	bool kernel_writes;               /* io_uring or aio is set up */
	struct block_cache *blocks;
	struct code_slot *slots;
	uint64_t gadget; /* address of a SYSCALL instruction; 0: none found yet */
};

/* Opens the memory of @pid and reads its mappings. 0 or -errno. */
int code_open(struct code *code, pid_t pid);
void code_close(struct code *code);

/* Reads the mappings anew. 1: something executable appeared or changed; 0: not; -errno. */
int code_refresh(struct code *code);
const struct code_map *code_map_at(const struct code *code, uint64_t addr);
/* Does [addr, addr + len) touch an executable mapping? */
bool code_overlaps(const struct code *code, uint64_t addr, uint64_t len);

/* 0; -EFAULT: nothing readable there; -EINVAL: no instruction. */
int code_at(struct code *code, uint64_t ip, bool mode_32, struct code_insn *out);

/* Data as it is. Counts of bytes done. */
size_t code_read_memory(void *code, uint64_t addr, void *buf, size_t size);
size_t code_write_memory(const struct code *code, uint64_t addr, const void *buf, size_t size);
/* Code as the file has it where a breakpoint was written into a private copy. */
size_t code_read(void *code, uint64_t addr, void *buf, size_t size);

/* The original byte of a file-backed code address. 0 or -errno. */
int code_file_byte(struct code *code, uint64_t addr, uint8_t *byte);
/* An address of the process where the bytes 0f 05 are executable; 0: none. */
uint64_t code_gadget(struct code *code);

#endif
