/* SPDX-License-Identifier: Dual BSD/GPL */
/*
 * The kernel types that our BPF programs read: only the fields in use, relocated by CO-RE to the
 * running kernel's layout. README.md beside it tells how to add one; `check` compares it with BTF.
 */
#ifndef PTBPF_VMLINUX_H
#define PTBPF_VMLINUX_H

typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u8 u8;
typedef __u16 u16;
typedef __s32 s32;
typedef __u32 u32;
typedef __s64 s64;
typedef __u64 u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

enum { false = 0, true = 1 };

enum bpf_map_type {
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

/* UAPI flags (linux/bpf.h, linux/sched.h), macros or anonymous enums there. */
#define BPF_F_NO_PREALLOC 1u
#define BPF_F_MMAPABLE 1024u
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1u
#define BPF_RB_FORCE_WAKEUP 2u
#define CLONE_THREAD 0x00010000u
#define PF_EXITING 0x00000004u

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pid_namespace;

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1]; /* level + 1 of them */
};

struct task_struct {
	unsigned int flags;
	int on_cpu;
	int exit_code;
	int pid;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	char comm[16];
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct pt_regs {
	unsigned long r9;
	unsigned long r8;
	unsigned long cx;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long ip;
	unsigned long sp;
};

#pragma clang attribute pop

#endif
