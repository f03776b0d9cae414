// SPDX-License-Identifier: GPL-2.0-only
/*
 * ptbpf_abi.h as the compiler for BPF laid it out (the BTF in the built objects) and as ours does.
 * links:
 */
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>

#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "../../bpf/ptbpf_abi.h"
#include "bpf/threads.skel.h"
#include "bpf/trigger.skel.h"
#include "unit.h"

struct member {
	const char *type, *name;
	size_t offset, size, whole;
};

#define MEMBER(type, name)                                                                   \
	{                                                                                    \
#type, #name, offsetof(struct type, name), sizeof(((struct type *)0)->name), \
			sizeof(struct type)                                                  \
	}

static const struct member members[] = {
	MEMBER(ptbpf_condition, arg),
	MEMBER(ptbpf_condition, op),
	MEMBER(ptbpf_condition, value),
	MEMBER(ptbpf_trigger, flags),
	MEMBER(ptbpf_trigger, tid),
	MEMBER(ptbpf_trigger, comm),
	MEMBER(ptbpf_trigger, n_conditions),
	MEMBER(ptbpf_trigger, sample_ppm),
	MEMBER(ptbpf_trigger, after),
	MEMBER(ptbpf_trigger, every),
	MEMBER(ptbpf_trigger, rate_count),
	MEMBER(ptbpf_trigger, rate_ns),
	MEMBER(ptbpf_trigger, conditions),
	MEMBER(ptbpf_trigger_stats, hits),
	MEMBER(ptbpf_trigger_stats, fires),
	MEMBER(ptbpf_trigger_stats, drops),
	MEMBER(ptbpf_fire, time_ns),
	MEMBER(ptbpf_fire, ip),
	MEMBER(ptbpf_fire, args),
	MEMBER(ptbpf_fire, sp),
	MEMBER(ptbpf_fire, hit),
	MEMBER(ptbpf_fire, trigger),
	MEMBER(ptbpf_fire, attachment),
	MEMBER(ptbpf_fire, pid),
	MEMBER(ptbpf_fire, tid),
	MEMBER(ptbpf_fire, ns_pid),
	MEMBER(ptbpf_fire, ns_tid),
	MEMBER(ptbpf_fire, comm),
	MEMBER(ptbpf_fire, sequence),
	MEMBER(ptbpf_fire_page, claimed),
	MEMBER(ptbpf_fire_page, single),
	MEMBER(ptbpf_fire_page, wake_drops),
	MEMBER(ptbpf_fire_page, published),
	MEMBER(ptbpf_fire_page, fires),
	MEMBER(ptbpf_fire_page, stats),
	MEMBER(ptbpf_record, type),
	MEMBER(ptbpf_record, size),
	MEMBER(ptbpf_record, time_ns),
	MEMBER(ptbpf_record, pid),
	MEMBER(ptbpf_record, tid),
	MEMBER(ptbpf_record, ns_pid),
	MEMBER(ptbpf_record, ns_tid),
	MEMBER(ptbpf_record, parent_pid),
	MEMBER(ptbpf_record, parent_tid),
	MEMBER(ptbpf_record, exit_code),
	MEMBER(ptbpf_record, new_process),
	MEMBER(ptbpf_record, comm),
	MEMBER(ptbpf_record, oncpu_ns),
	MEMBER(ptbpf_thread, oncpu_ns),
	MEMBER(ptbpf_thread, switched_in_ns),
	MEMBER(ptbpf_thread, pid),
	MEMBER(ptbpf_thread, tid),
	MEMBER(ptbpf_thread, ns_pid),
	MEMBER(ptbpf_thread, ns_tid),
};

static struct btf *btf_of(const void *elf, size_t size)
{
	const int fd = memfd_create("object", MFD_CLOEXEC);
	struct btf *btf;
	char path[64];

	CHECK(fd >= 0);
	CHECK_EQ(write(fd, elf, size), size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	btf = btf__parse(path, NULL);
	CHECK(btf);
	close(fd);
	return btf;
}

/* Compares every member of a type that @btf has. False: it has not. */
static bool check_member(const struct btf *btf, const struct member *member)
{
	const int id = btf__find_by_name_kind(btf, member->type, BTF_KIND_STRUCT);
	const struct btf_type *type;
	const struct btf_member *fields;

	if (id < 0)
		return false;
	type = btf__type_by_id(btf, (uint32_t)id);
	CHECK_EQ(type->size, member->whole);
	fields = btf_members(type);
	for (uint16_t i = 0; i < btf_vlen(type); i++) {
		if (strcmp(btf__name_by_offset(btf, fields[i].name_off), member->name))
			continue;
		CHECK_EQ(btf_member_bit_offset(type, i), member->offset * 8);
		CHECK_EQ(btf__resolve_size(btf, fields[i].type), member->size);
		return true;
	}
	fprintf(stderr, "%s has no %s\n", member->type, member->name);
	exit(1);
}

TEST(both_compilers_agree_on_every_member)
{
	size_t trigger_size, threads_size;
	const void *trigger_elf = trigger_bpf__elf_bytes(&trigger_size);
	const void *threads_elf = threads_bpf__elf_bytes(&threads_size);
	struct btf *trigger = btf_of(trigger_elf, trigger_size);
	struct btf *threads = btf_of(threads_elf, threads_size);

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		const bool in_trigger = check_member(trigger, &members[i]);
		const bool in_threads = check_member(threads, &members[i]);

		if (!in_trigger && !in_threads)
			fprintf(stderr, "no BPF object has struct %s\n", members[i].type);
		CHECK(in_trigger || in_threads);
	}
	btf__free(trigger);
	btf__free(threads);
}

static void check_complete(struct btf *btf)
{
	const uint32_t n = btf__type_cnt(btf);

	for (uint32_t id = 1; id < n; id++) {
		const struct btf_type *type = btf__type_by_id(btf, id);
		const char *name = btf__name_by_offset(btf, type->name_off);

		if (!btf_is_struct(type) || strncmp(name, "ptbpf_", 6))
			continue;
		for (uint16_t k = 0; k < btf_vlen(type); k++) {
			const char *field = btf__name_by_offset(btf, btf_members(type)[k].name_off);
			bool known = !strcmp(field, "pad");

			for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
				known |= !strcmp(members[i].type, name) &&
					 !strcmp(members[i].name, field);
			if (!known)
				fprintf(stderr, "struct %s.%s is not compared\n", name, field);
			CHECK(known);
		}
	}
	btf__free(btf);
}

TEST(every_member_is_compared)
{
	size_t size;
	const void *elf = trigger_bpf__elf_bytes(&size);

	check_complete(btf_of(elf, size));
	elf = threads_bpf__elf_bytes(&size);
	check_complete(btf_of(elf, size));
}

UNIT_MAIN("unit/abi")
