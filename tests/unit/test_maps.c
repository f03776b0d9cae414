// SPDX-License-Identifier: GPL-2.0-only
/*
 * links: record/maps
 */
#include "record/maps.h"

#include <errno.h>
#include <sys/mman.h>

#include "unit.h"

TEST(parses_every_form_of_line)
{
	static const char text[] =
		"55d0c0a00000-55d0c0a21000 r-xp 00001000 fd:01 1234567    /usr/bin/a b\n"
		"7f0000000000-7f0000001000 rwxp 00000000 00:00 0 \n"
		"7f0000002000-7f0000003000 r-xs 00002000 08:02 99         /tmp/x\\012y (deleted)\n"
		"nonsense\n"
		"7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0          [vdso]\n";
	maps_entries entries = { 0 };

	CHECK_EQ(maps_parse(text, &entries), 0);
	CHECK_EQ(entries.len, 4);
	CHECK_EQ(entries.data[0].start, 0x55d0c0a00000);
	CHECK_EQ(entries.data[0].end, 0x55d0c0a21000);
	CHECK_EQ(entries.data[0].prot, PROT_READ | PROT_EXEC);
	CHECK_EQ(entries.data[0].flags, MAP_PRIVATE);
	CHECK_EQ(entries.data[0].pgoff, 0x1000);
	CHECK_EQ(entries.data[0].maj, 0xfd);
	CHECK_EQ(entries.data[0].ino, 1234567);
	CHECK_STR(entries.data[0].path, "/usr/bin/a b");
	CHECK(!maps_is_unbacked(&entries.data[0]));
	CHECK_STR(entries.data[1].path, "");
	CHECK(maps_is_unbacked(&entries.data[1]));
	CHECK_STR(entries.data[2].path, "/tmp/x\ny");
	CHECK(entries.data[2].deleted && maps_is_unbacked(&entries.data[2]));
	CHECK_EQ(entries.data[2].flags, MAP_SHARED);
	CHECK(maps_is_unbacked(&entries.data[3]) && !maps_is_special(&entries.data[3]));
	maps_fini(&entries);
}

TEST(reads_its_own_process)
{
	maps_entries entries = { 0 };
	const struct maps_entry *entry;
	bool found = false;

	CHECK_EQ(maps_read(getpid(), &entries), 0);
	vec_for_each(entry, &entries) {
		const uint64_t here = (uint64_t)&maps_read;

		found |= here >= entry->start && here < entry->end && (entry->prot & PROT_EXEC);
	}
	CHECK(found);
	maps_fini(&entries);
}

TEST(a_dead_pid_is_an_error)
{
	maps_entries entries = { 0 };

	CHECK_EQ(maps_read(0x7ffffff0, &entries), -ENOENT);
}

UNIT_MAIN("unit/maps")
