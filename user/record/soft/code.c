// SPDX-License-Identifier: GPL-2.0-only
#include "record/soft/code.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

#define INSN_MAX 15u

static void maps_free(struct code *code)
{
	struct code_map *map;

	vec_for_each(map, &code->maps) {
		if (map->file_fd >= 0)
			close(map->file_fd);
		free(map->path);
	}
	vec_free(&code->maps);
}

int code_open(struct code *code, pid_t pid)
{
	char path[64];
	int err;

	memset(code, 0, sizeof(*code));
	code->pid = pid;
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	code->mem_fd = open(path, O_RDWR | O_CLOEXEC);
	if (code->mem_fd < 0)
		return -errno;
	code->slots = calloc(CODE_CACHE, sizeof(*code->slots));
	err = code->slots ? block_cache_new(&code->blocks) : -ENOMEM;
	if (!err)
		err = code_refresh(code);
	if (err < 0)
		code_close(code);
	return err < 0 ? err : 0;
}

void code_close(struct code *code)
{
	maps_free(code);
	if (code->blocks)
		block_cache_free(code->blocks);
	free(code->slots);
	if (code->mem_fd >= 0)
		close(code->mem_fd);
	memset(code, 0, sizeof(*code));
	code->mem_fd = -1;
}

static bool is_special(const char *path)
{
	return !strcmp(path, "[vdso]") || !strcmp(path, "[vsyscall]") || !strcmp(path, "[uprobes]");
}

/* What block plans may rely on in this mapping. */
static int add_region(struct code *fresh, const struct code_map *map, const char *prot)
{
	struct block_region region = { .addr = map->start, .len = map->end - map->start };
	const bool private = prot[3] == 'p' && !map->special && strncmp(map->path, "[vvar", 5) != 0;

	if (!strncmp(map->path, "/[aio]", 6) || !strcmp(map->path, "anon_inode:[io_uring]"))
		fresh->kernel_writes = true;
	if (!private)
		return 0; /* what is in no region is unstable */
	region.kind = prot[1] != 'w' && map->inode ? BLOCK_CONSTANT : BLOCK_PRIVATE;
	return vec_push(&fresh->regions, region);
}

/* One line of /proc/PID/maps. 1: an executable mapping; 0: not; -ENOMEM. */
static int parse_map(const char *line, struct code *fresh, struct code_map *map)
{
	char prot[5];
	int path_at = 0;
	int err;

	memset(map, 0, sizeof(*map));
	map->file_fd = -1;
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %" SCNu64 " %n", &map->start,
		   &map->end, prot, &map->offset, &map->inode, &path_at) < 5)
		return 0;
	map->path = strndup(line + path_at, strcspn(line + path_at, "\n"));
	if (!map->path)
		return -ENOMEM;
	map->special = is_special(map->path);
	err = add_region(fresh, map, prot);
	if (err || prot[2] != 'x') {
		free(map->path);
		return err;
	}
	/*
	 * Private file pages that are not writable change only through system calls that a stepped
	 * thread is seen to make. Anonymous and shared code may change behind the stepper's back.
	 */
	map->changeable = !map->special && (!map->inode || prot[1] == 'w' || prot[3] == 's');
	return 1;
}

static bool same_map(const struct code_map *a, const struct code_map *b)
{
	return a->start == b->start && a->end == b->end && a->offset == b->offset &&
	       a->inode == b->inode && a->changeable == b->changeable && !strcmp(a->path, b->path);
}

/* Moves what stayed (and its open file) from the old list; tells the caches what did not. */
static int adopt_maps(struct code *code, struct code *fresh)
{
	struct code_map *old, *map;
	bool changed = false;
	int err = 0;

	vec_for_each(old, &code->maps) {
		bool kept = false;

		vec_for_each(map, &fresh->maps) {
			if (!same_map(old, map))
				continue;
			map->file_fd = TAKE_FD(old->file_fd);
			kept = true;
		}
		if (!kept)
			block_cache_invalidate(code->blocks, old->start, old->end - old->start);
	}
	vec_for_each(map, &fresh->maps) {
		bool known = false;

		vec_for_each(old, &code->maps)
			known |= same_map(old, map);
		if (known)
			continue;
		changed = true;
		block_cache_invalidate(code->blocks, map->start, map->end - map->start);
		if (map->changeable && !err)
			err = block_cache_mark_volatile(code->blocks, map->start,
							map->end - map->start);
	}
	return err ? err : changed;
}

static int set_regions(struct code *code, struct code *fresh)
{
	const struct block_region rseq = { .addr = code->rseq, .len = 32, .kind = BLOCK_UNSTABLE };
	int err = 0;

	/* The first region counts. */
	if (code->rseq) {
		err = vec_push(&fresh->regions, rseq);
		if (!err) {
			fresh->regions.data[fresh->regions.len - 1] = fresh->regions.data[0];
			fresh->regions.data[0] = rseq;
		}
	}
	if (err)
		return err;
	return block_cache_set_regions(code->blocks, fresh->regions.data, fresh->regions.len);
}

int code_refresh(struct code *code)
{
	struct code fresh = { 0 };
	scoped_file FILE *file = NULL;
	scoped_free char *line = NULL;
	char path[64];
	size_t room = 0;
	int err = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", code->pid);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	while (err >= 0 && getline(&line, &room, file) > 0) {
		struct code_map map;

		err = parse_map(line, &fresh, &map);
		if (err > 0)
			err = vec_push(&fresh.maps, map);
	}
	if (err >= 0)
		err = set_regions(code, &fresh);
	vec_free(&fresh.regions);
	if (err >= 0)
		err = adopt_maps(code, &fresh);
	if (err < 0) {
		maps_free(&fresh);
		return err;
	}
	code->kernel_writes |= fresh.kernel_writes;
	maps_free(code);
	code->maps.data = fresh.maps.data;
	code->maps.len = fresh.maps.len;
	code->maps.cap = fresh.maps.cap;
	if (err)
		memset(code->slots, 0, CODE_CACHE * sizeof(*code->slots));
	code->gadget = 0;
	return err;
}

const struct code_map *code_map_at(const struct code *code, uint64_t addr)
{
	size_t low = 0, high = code->maps.len;

	while (low < high) {
		const size_t middle = (low + high) / 2;
		const struct code_map *map = &code->maps.data[middle];

		if (addr < map->start)
			high = middle;
		else if (addr >= map->end)
			low = middle + 1;
		else
			return map;
	}
	return NULL;
}

bool code_overlaps(const struct code *code, uint64_t addr, uint64_t len)
{
	const struct code_map *map;

	vec_for_each(map, &code->maps) {
		if (addr < map->end && addr + len > map->start)
			return true;
	}
	return false;
}

size_t code_read_memory(void *ctx, uint64_t addr, void *buf, size_t size)
{
	const struct code *code = ctx;
	const ssize_t n = pread(code->mem_fd, buf, size, (off_t)addr);

	if (n >= 0)
		return (size_t)n;
	/* The range may run into a page that is not there: what lies before it still counts. */
	if (size > 1 && (addr & 4095) + size > 4096) {
		const size_t first = 4096 - (addr & 4095);
		const ssize_t part = pread(code->mem_fd, buf, first, (off_t)addr);

		return part > 0 ? (size_t)part : 0;
	}
	return 0;
}

size_t code_write_memory(const struct code *code, uint64_t addr, const void *buf, size_t size)
{
	const ssize_t n = pwrite(code->mem_fd, buf, size, (off_t)addr);

	return n > 0 ? (size_t)n : 0;
}

static int open_map_file(const struct code *code, const struct code_map *map)
{
	char path[4200];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, code->pid,
		 map->start, map->end);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	snprintf(path, sizeof(path), "/proc/%d/root%s", code->pid, map->path);
	return open(path, O_RDONLY | O_CLOEXEC);
}

int code_file_byte(struct code *code, uint64_t addr, uint8_t *byte)
{
	struct code_map *map = (struct code_map *)code_map_at(code, addr);

	if (!map || !map->inode || map->changeable)
		return -ENOENT;
	if (map->file_fd < 0)
		map->file_fd = open_map_file(code, map);
	if (map->file_fd < 0)
		return -errno;
	if (pread(map->file_fd, byte, 1, (off_t)(map->offset + (addr - map->start))) != 1)
		return -ENODATA;
	return 0;
}

size_t code_read(void *ctx, uint64_t addr, void *buf, size_t size)
{
	struct code *code = ctx;
	const size_t n = code_read_memory(code, addr, buf, size);
	uint8_t *bytes = buf;

	for (size_t i = 0; i < n; i++) {
		uint8_t original;

		if (bytes[i] == 0xcc && !code_file_byte(code, addr + i, &original))
			bytes[i] = original;
	}
	return n;
}

static bool is_prefix(uint8_t byte)
{
	switch (byte) {
	case 0x26:
	case 0x2e:
	case 0x36:
	case 0x3e:
	case 0x64 ... 0x67:
	case 0xf0:
	case 0xf2:
	case 0xf3:
		return true;
	default:
		return false;
	}
}

static enum code_kind far_kind(const uint8_t *op)
{
	switch (op[0]) {
	case 0x0f:
		return op[1] == 0x05 || op[1] == 0x34 ? CODE_SYSCALL : CODE_INTERRUPT;
	case 0xcc:
	case 0xcd:
	case 0xce:
	case 0xf1:
		return CODE_INTERRUPT;
	default:
		return CODE_FAR;
	}
}

static enum code_kind kind_of(const uint8_t *bytes, bool mode_32, const struct insn *insn)
{
	size_t i = 0;

	if (insn->class == INSN_XBEGIN)
		return CODE_XBEGIN;
	if (insn->class != INSN_FAR && !insn->touches_tf)
		return CODE_PLAIN;
	while (i < insn->length && is_prefix(bytes[i]))
		i++;
	if (!mode_32 && (bytes[i] & 0xf0) == 0x40)
		i++; /* REX */
	if (insn->class == INSN_FAR)
		return far_kind(bytes + i);
	if (bytes[i] == 0x9c)
		return CODE_PUSHF;
	return bytes[i] == 0x8e || bytes[i] == 0x17 ? CODE_LOAD_SS : CODE_PLAIN;
}

int code_at(struct code *code, uint64_t ip, bool mode_32, struct code_insn *out)
{
	struct code_slot *slot = &code->slots[(ip ^ ip >> 13) % CODE_CACHE];
	const struct code_map *map;
	uint8_t bytes[INSN_MAX + 1] = { 0 };
	size_t n;

	if (slot->ip == ip) {
		*out = slot->code;
		return 0;
	}
	n = code_read(code, ip, bytes, INSN_MAX);
	if (!n)
		return -EFAULT;
	if (insn_decode(bytes, n, ip, mode_32 ? 32 : 64, &out->insn) ||
	    out->insn.class == INSN_INVALID)
		return -EINVAL;
	out->kind = (uint8_t)kind_of(bytes, mode_32, &out->insn);
	map = code_map_at(code, ip);
	if (map && !map->changeable) {
		slot->ip = ip;
		slot->code = *out;
	}
	return 0;
}

static uint64_t find_syscall(struct code *code, const struct code_map *map)
{
	uint8_t bytes[4096];

	for (uint64_t addr = map->start; addr < map->end; addr += sizeof(bytes) - 1) {
		const size_t n = code_read_memory(code, addr, bytes, sizeof(bytes));
		const uint8_t *at = n ? memmem(bytes, n, "\x0f\x05", 2) : NULL;

		if (at)
			return addr + (uint64_t)(at - bytes);
		if (n < sizeof(bytes))
			break;
	}
	return 0;
}

uint64_t code_gadget(struct code *code)
{
	const struct code_map *map;

	if (code->gadget)
		return code->gadget;
	vec_for_each(map, &code->maps) {
		if (!strcmp(map->path, "[vdso]"))
			code->gadget = find_syscall(code, map);
	}
	vec_for_each(map, &code->maps) {
		if (!code->gadget && !map->special)
			code->gadget = find_syscall(code, map);
	}
	return code->gadget;
}
