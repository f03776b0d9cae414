// SPDX-License-Identifier: GPL-2.0-only
/*
 * links: snapshot/recording snapshot/perf_data_write snapshot/perf_data_read snapshot/perf_features
 * links: snapshot/perf_records snapshot/perf_chunks snapshot/sink base/clock
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "snapshot/perf_data.h"
#include "snapshot/perf_format.h"

static char path[64];
static char why[256];
static bool truncated;

static void temporary_path(void)
{
	strcpy(path, "/tmp/ptbpf-perf.XXXXXX");
	close(mkstemp(path));
	unlink(path);
}

static void add_event(struct recording *recording, struct recording_event event)
{
	CHECK_EQ(recording_add_event(recording, &event), 0);
}

static void add_chunk(struct recording *recording, struct recording_chunk chunk, uint8_t fill)
{
	chunk.data = malloc(chunk.size);
	for (uint64_t i = 0; i < chunk.size; i++)
		chunk.data[i] = (uint8_t)(fill + i);
	CHECK_EQ(recording_add_chunk(recording, &chunk), 0);
}

static void fill(struct recording *recording)
{
	const struct recording_map map = {
		.addr = 0x400000,
		.len = 0x1000,
		.pgoff = 0x2000,
		.prot = PROT_READ | PROT_EXEC,
		.flags = MAP_PRIVATE,
		.build_id = { 1, 2, 3, 4, 5, 6, 7, 8 },
		.build_id_size = 8,
	};
	struct recording_event event = { .kind = RECORDING_MAP, .time_ns = 12, .pid = 7, .tid = 8 };

	memset(recording, 0, sizeof(*recording));
	recording->clock = (struct clock_conv){ .mult = 1u << 31, .shift = 31, .zero = 5 };
	recording->cpu = (struct recording_cpu){ true, 6, 85, 7 };
	recording->pt = (struct recording_pt){ .config = 0x2601 | 3 << 14,
					       .mtc_freq = 3,
					       .tsc_ctc_n = 84,
					       .tsc_ctc_d = 2,
					       .max_nonturbo_ratio = 25 };
	add_event(recording, (struct recording_event){ .kind = RECORDING_COMM,
						       .time_ns = 10,
						       .pid = 7,
						       .tid = 7,
						       .comm = { "fifteen chars..", true } });
	event.map = map;
	event.map.path = strdup("/usr/bin/true");
	add_event(recording, event);
	event.time_ns = 13;
	event.map.build_id_size = 0;
	event.map.maj = 8;
	event.map.min = 1;
	event.map.ino = 12345678901;
	event.map.ino_generation = 3;
	event.map.path = malloc(4096);
	memset(event.map.path, 'p', 4095);
	event.map.path[0] = '/';
	event.map.path[4095] = '\0';
	add_event(recording, event);
	add_event(recording, (struct recording_event){ .kind = RECORDING_FORK,
						       .time_ns = 14,
						       .pid = 7,
						       .tid = 8,
						       .parent = { 7, 7 } });
	add_event(recording, (struct recording_event){ .kind = RECORDING_EXIT,
						       .time_ns = 200,
						       .pid = 7,
						       .tid = 8,
						       .parent = { 7, 7 } });
	add_chunk(recording,
		  (struct recording_chunk){ .pid = 7,
					    .tid = 7,
					    .size = 100,
					    .join = RECORDING_JOIN_BIRTH,
					    .start_ns = 11,
					    .end_ns = 50 },
		  1);
	add_chunk(recording,
		  (struct recording_chunk){ .pid = 7,
					    .tid = 7,
					    .size = 7,
					    .join = RECORDING_JOIN_LOST,
					    .gap_ns = 10,
					    .data_lost = true,
					    .start_ns = 60,
					    .end_ns = 70 },
		  2);
	add_chunk(recording,
		  (struct recording_chunk){ .pid = 7,
					    .tid = 7,
					    .size = 8,
					    .join = RECORDING_JOIN_RESIZE,
					    .gap_ns = 5,
					    .start_ns = 75,
					    .end_ns = 80 },
		  3);
	add_chunk(recording,
		  (struct recording_chunk){
			  .pid = 7, .tid = 8, .size = 70001, .join = RECORDING_JOIN_WRAPPED },
		  4);
}

static void check_maps(const struct recording_map *a, const struct recording_map *b)
{
	CHECK_STR(a->path, b->path);
	CHECK_EQ(a->addr, b->addr);
	CHECK_EQ(a->len, b->len);
	CHECK_EQ(a->pgoff, b->pgoff);
	CHECK_EQ(a->prot, b->prot);
	CHECK_EQ(a->flags, b->flags);
	CHECK_EQ(a->build_id_size, b->build_id_size);
	if (b->build_id_size) {
		CHECK(!memcmp(a->build_id, b->build_id, sizeof(a->build_id)));
	} else {
		CHECK_EQ(a->maj, b->maj);
		CHECK_EQ(a->min, b->min);
		CHECK_EQ(a->ino, b->ino);
		CHECK_EQ(a->ino_generation, b->ino_generation);
	}
}

static void check_events(const struct recording *a, const struct recording *b)
{
	CHECK_EQ(a->events.len, b->events.len);
	for (size_t i = 0; i < a->events.len; i++) {
		const struct recording_event *x = &a->events.data[i], *y = &b->events.data[i];

		CHECK_EQ(x->kind, y->kind);
		CHECK_EQ(x->time_ns, y->time_ns);
		CHECK_EQ(x->pid, y->pid);
		CHECK_EQ(x->tid, y->tid);
		if (x->kind == RECORDING_COMM) {
			CHECK_STR(x->comm.name, y->comm.name);
			CHECK_EQ(x->comm.exec, y->comm.exec);
		} else if (x->kind == RECORDING_MAP) {
			check_maps(&x->map, &y->map);
		} else {
			CHECK_EQ(x->parent.parent_pid, y->parent.parent_pid);
			CHECK_EQ(x->parent.parent_tid, y->parent.parent_tid);
		}
	}
}

static void check_chunks(const struct recording *a, const struct recording *b)
{
	CHECK_EQ(a->chunks.len, b->chunks.len);
	for (size_t i = 0; i < a->chunks.len; i++) {
		const struct recording_chunk *x = &a->chunks.data[i], *y = &b->chunks.data[i];

		CHECK_EQ(x->pid, y->pid);
		CHECK_EQ(x->tid, y->tid);
		CHECK_EQ(x->join, y->join);
		CHECK_EQ(x->gap_ns, y->gap_ns);
		CHECK_EQ(x->start_ns, y->start_ns);
		CHECK_EQ(x->end_ns, y->end_ns);
		CHECK_EQ(x->data_lost, y->data_lost);
		CHECK_EQ(x->size, y->size);
		CHECK(!memcmp(x->data, y->data, x->size));
	}
}

TEST(everything_written_is_read_back)
{
	struct recording recording, again;

	temporary_path();
	fill(&recording);
	CHECK_EQ(perf_data_write(path, &recording, "ptbpf -- x"), 0);
	CHECK_EQ(perf_data_read(path, &again, &truncated, why, sizeof(why)), 0);
	CHECK(!truncated);
	check_events(&again, &recording);
	check_chunks(&again, &recording);
	CHECK(again.clock.mult == 1u << 31 && again.clock.shift == 31 && again.clock.zero == 5);
	CHECK(again.cpu.intel && again.cpu.family == 6 && again.cpu.model == 85 &&
	      again.cpu.stepping == 7);
	CHECK_EQ(again.pt.config, recording.pt.config);
	CHECK_EQ(again.pt.mtc_freq, 3);
	CHECK_EQ(again.pt.tsc_ctc_n, 84);
	CHECK_EQ(again.pt.tsc_ctc_d, 2);
	CHECK_EQ(again.pt.max_nonturbo_ratio, 25);
	/* A large chunk is not copied: the file itself is mapped. */
	CHECK(again.chunks.data[3].borrowed);
	recording_fini(&recording);
	recording_fini(&again);
	unlink(path);
}

TEST(an_empty_recording_is_a_valid_file)
{
	struct recording recording = { 0 }, again;

	temporary_path();
	CHECK_EQ(perf_data_write(path, &recording, NULL), 0);
	CHECK_EQ(perf_data_read(path, &again, &truncated, why, sizeof(why)), 0);
	CHECK(!truncated && !again.events.len && !again.chunks.len);
	recording_fini(&again);
	unlink(path);
}

TEST(many_chunks_need_several_id_records)
{
	struct recording recording = { .clock = { .mult = 1, .shift = 0 } }, again;

	temporary_path();
	for (int i = 0; i < 5000; i++)
		add_chunk(&recording,
			  (struct recording_chunk){
				  .pid = 1, .tid = 1 + i / 10, .size = 3, .start_ns = 1 + i },
			  (uint8_t)i);
	CHECK_EQ(perf_data_write(path, &recording, "x"), 0);
	CHECK_EQ(perf_data_read(path, &again, &truncated, why, sizeof(why)), 0);
	check_chunks(&again, &recording);
	recording_fini(&recording);
	recording_fini(&again);
	unlink(path);
}

TEST(an_existing_file_is_kept)
{
	struct recording recording = { 0 };
	struct stat st;

	temporary_path();
	close(open(path, O_CREAT | O_WRONLY, 0600));
	CHECK_EQ(perf_data_write(path, &recording, "x"), -EEXIST);
	CHECK_EQ(stat(path, &st), 0);
	CHECK_EQ(perf_data_write("/nonexistent/x", &recording, "x"), -ENOENT);
	unlink(path);
}

/* Every size of disk up to what it needs: -ENOSPC, and no file. */
TEST(a_full_disk_leaves_nothing)
{
	char dir[] = "/tmp/ptbpf-full.XXXXXX", file[64];
	struct recording recording;
	int err = -ENOSPC;

	CHECK(mkdtemp(dir));
	fill(&recording);
	snprintf(file, sizeof(file), "%s/perf.data", dir);
	for (int pages = 1; err; pages++) {
		char options[32];
		struct stat st;

		snprintf(options, sizeof(options), "size=%dk", 4 * pages);
		if (mount("none", dir, "tmpfs", 0, options))
			SKIP("mount: not allowed here");
		err = perf_data_write(file, &recording, "x");
		CHECK(err == 0 || err == -ENOSPC);
		CHECK_EQ(stat(file, &st), err ? -1 : 0);
		CHECK_EQ(umount(dir), 0);
		CHECK(pages < 100);
	}
	recording_fini(&recording);
	rmdir(dir);
}

static size_t read_all(uint8_t **bytes)
{
	const int fd = open(path, O_RDONLY);
	struct stat st;

	CHECK_EQ(fstat(fd, &st), 0);
	*bytes = malloc((size_t)st.st_size);
	CHECK_EQ(read(fd, *bytes, (size_t)st.st_size), st.st_size);
	close(fd);
	return (size_t)st.st_size;
}

static void write_all(const uint8_t *bytes, size_t size)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	CHECK(fd >= 0);
	CHECK_EQ(write(fd, bytes, size), size);
	close(fd);
}

static uint8_t *small_file(size_t *size)
{
	struct recording recording;
	uint8_t *bytes;

	temporary_path();
	fill(&recording);
	recording.chunks.data[3].size = 9;
	CHECK_EQ(perf_data_write(path, &recording, "x"), 0);
	recording_fini(&recording);
	*size = read_all(&bytes);
	return bytes;
}

TEST(a_truncated_file_gives_what_is_whole)
{
	size_t size, whole = 0, chunks = 0;
	uint8_t *bytes = small_file(&size);

	for (size_t cut = 0; cut <= size; cut += cut + 64 < size ? 5 : 1) {
		struct recording recording;
		int err;

		write_all(bytes, cut);
		err = perf_data_read(path, &recording, &truncated, why, sizeof(why));
		CHECK(err == 0 || (err == -EINVAL && why[0]));
		if (err)
			continue;
		CHECK(recording.chunks.len >= chunks && recording.chunks.len <= 4);
		chunks = recording.chunks.len;
		whole += !truncated;
		CHECK(truncated || chunks == 4);
		recording_fini(&recording);
	}
	CHECK(whole > 0 && chunks == 4);
	free(bytes);
	unlink(path);
}

TEST(no_damaged_byte_crashes_the_reader)
{
	size_t size;
	uint8_t *bytes = small_file(&size);
	const struct rlimit limit = { 256 << 20, 256 << 20 };

#ifdef __SANITIZE_ADDRESS__
	(void)limit;
#else
	CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
#endif
	for (size_t at = 0; at < size; at++) {
		static const uint8_t values[] = { 0, 0xff, 0x80 };
		const uint8_t kept = bytes[at];

		if (bytes[at] == 'p')
			continue;
		for (size_t i = 0; i < sizeof(values); i++) {
			struct recording recording;

			bytes[at] = values[i];
			write_all(bytes, size);
			why[0] = '\0';
			if (perf_data_read(path, &recording, &truncated, why, sizeof(why)))
				CHECK(why[0]);
			recording_fini(&recording);
		}
		bytes[at] = kept;
	}
	free(bytes);
	unlink(path);
}

static int read_bytes(const uint8_t *bytes, size_t size)
{
	struct recording recording;
	int err;

	write_all(bytes, size);
	err = perf_data_read(path, &recording, &truncated, why, sizeof(why));
	recording_fini(&recording);
	return err;
}

TEST(refusals_say_why)
{
	size_t size;
	uint8_t *bytes = small_file(&size);
	struct perf_format_header *header = (struct perf_format_header *)bytes, kept = *header;
	struct recording recording;

	CHECK_EQ(perf_data_read("/nonexistent", &recording, &truncated, why, sizeof(why)), -ENOENT);
	CHECK_EQ(perf_data_read("/tmp", &recording, &truncated, why, sizeof(why)), -EINVAL);
	CHECK_STR(why, "not a regular file");
	CHECK_EQ(read_bytes((const uint8_t *)"#!/bin/sh\n", 10), -EINVAL);
	CHECK(strstr(why, "not a perf.data file"));
	header->size = 16;
	CHECK_EQ(read_bytes(bytes, size), -ENOTSUP);
	CHECK(strstr(why, "pipe"));
	*header = kept;
	header->magic = __builtin_bswap64(header->magic);
	CHECK_EQ(read_bytes(bytes, size), -ENOTSUP);
	CHECK(strstr(why, "byte order"));
	*header = kept;
	header->magic = 0;
	CHECK_EQ(read_bytes(bytes, size), -EINVAL);
	CHECK(strstr(why, "incomplete"));
	*header = kept;
	header->features[0] |= 1u << PERF_FEATURE_COMPRESSED;
	CHECK_EQ(read_bytes(bytes, size), -ENOTSUP);
	CHECK(strstr(why, "compressed"));
	*header = kept;
	header->data.size = 64;
	CHECK_EQ(read_bytes(bytes, size), -EINVAL);
	CHECK(strstr(why, "no Intel PT"));
	free(bytes);
	unlink(path);
}

/* --- files as perf record would have written them, made out of ours --- */

/* The nth AUXTRACE record. */
static struct perf_format_auxtrace *find_trace(uint8_t *bytes, unsigned int n)
{
	const struct perf_format_header *header = (struct perf_format_header *)bytes;
	uint64_t at = header->data.offset;

	while (at < header->data.offset + header->data.size) {
		struct perf_format_auxtrace *record = (void *)(bytes + at);

		at += record->header.size;
		if (record->header.type != PERF_FORMAT_AUXTRACE)
			continue;
		if (n-- == 0)
			return record;
		at += record->size;
	}
	CHECK(!"found");
	return NULL;
}

TEST(pieces_of_a_stream_are_joined_and_cut_where_bytes_were_lost)
{
	size_t size;
	uint8_t *bytes = small_file(&size), expect[24];
	struct recording recording;

	/* Queue 0: [0,104), [104,112), then a hole, [120,128); perf's own has no mark of ours. */
	for (unsigned int i = 0; i < 4; i++)
		find_trace(bytes, i)->reserved = 0;
	find_trace(bytes, 1)->idx = find_trace(bytes, 2)->idx = 0;
	find_trace(bytes, 1)->offset = 104;
	find_trace(bytes, 2)->offset = 120;
	write_all(bytes, size);
	CHECK_EQ(perf_data_read(path, &recording, &truncated, why, sizeof(why)), 0);
	CHECK_EQ(recording.chunks.len, 3);
	CHECK_EQ(recording.chunks.data[0].size, 112);
	CHECK(!recording.chunks.data[0].data_lost && !recording.chunks.data[0].borrowed);
	CHECK_EQ(recording.chunks.data[0].data[99], 100);
	CHECK_EQ(recording.chunks.data[0].data[104], 2);
	CHECK_EQ(recording.chunks.data[1].size, 8);
	CHECK_EQ(recording.chunks.data[1].join, RECORDING_JOIN_LOST);
	CHECK(recording.chunks.data[1].data_lost && recording.chunks.data[1].borrowed);
	for (int i = 0; i < 8; i++)
		expect[i] = (uint8_t)(3 + i);
	CHECK(!memcmp(recording.chunks.data[1].data, expect, 8));
	CHECK_EQ(recording.chunks.data[2].tid, 8);
	recording_fini(&recording);
	free(bytes);
	unlink(path);
}

TEST(an_aux_record_that_is_truncated_cuts_the_stream_after_it)
{
	size_t size;
	uint8_t *bytes = small_file(&size);
	const struct perf_format_header *header = (struct perf_format_header *)bytes;
	struct recording recording;
	bool done = false;

	for (unsigned int i = 0; i < 4; i++)
		find_trace(bytes, i)->reserved = 0;
	for (uint64_t at = header->data.offset; !done;) {
		struct perf_format_aux *aux = (void *)(bytes + at);

		at += aux->header.size;
		if (aux->header.type == PERF_RECORD_AUX && aux->size == 104) {
			aux->size = 40;
			aux->flags = PERF_AUX_FLAG_TRUNCATED;
			done = true;
		}
	}
	write_all(bytes, size);
	CHECK_EQ(perf_data_read(path, &recording, &truncated, why, sizeof(why)), 0);
	CHECK_EQ(recording.chunks.data[0].size, 40);
	CHECK_EQ(recording.chunks.data[1].size, 64);
	CHECK_EQ(recording.chunks.data[1].data[0], 41);
	CHECK(recording.chunks.data[1].data_lost && !recording.chunks.data[0].data_lost);
	CHECK_EQ(recording.chunks.data[0].start_ns, 11);
	CHECK_EQ(recording.chunks.data[1].start_ns, 0);
	recording_fini(&recording);
	free(bytes);
	unlink(path);
}

/* A hostile file must not cost more than its size is worth. */
TEST(many_threads_without_a_start_record_are_found_quickly)
{
	struct recording recording = { 0 }, again;
	uint8_t *bytes;
	size_t size;

	temporary_path();
	for (int i = 0; i < 60000; i++) {
		add_event(&recording, (struct recording_event){ .kind = RECORDING_COMM,
								.time_ns = 1,
								.pid = i / 3 + 1,
								.tid = 60000 - i });
		add_chunk(&recording, (struct recording_chunk){ .pid = 1, .tid = i + 1, .size = 8 },
			  0);
	}
	CHECK_EQ(perf_data_write(path, &recording, "x"), 0);
	recording_fini(&recording);
	size = read_all(&bytes);
	for (uint8_t *at = bytes; at < bytes + size - 8; at += 8) {
		struct perf_event_header *header = (struct perf_event_header *)at;

		if (header->type == PERF_RECORD_ITRACE_START && header->size == 40)
			header->type = PERF_RECORD_LOST;
	}
	write_all(bytes, size);
	alarm(60);
	CHECK_EQ(perf_data_read(path, &again, &truncated, why, sizeof(why)), 0);
	CHECK_EQ(again.chunks.len, 60000);
	for (int i = 0; i < 60000; i++)
		CHECK_EQ(again.chunks.data[i].pid, (60000 - again.chunks.data[i].tid) / 3 + 1);
	recording_fini(&again);
	free(bytes);
	unlink(path);
}

TEST(recorded_per_cpu_is_refused)
{
	size_t size;
	uint8_t *bytes = small_file(&size);

	find_trace(bytes, 0)->tid = UINT32_MAX;
	CHECK_EQ(read_bytes(bytes, size), -ENOTSUP);
	CHECK(strstr(why, "per CPU") && strstr(why, "--per-thread"));
	free(bytes);
	unlink(path);
}

TEST(without_a_clock_everything_is_in_force_from_the_start)
{
	struct recording recording, again;

	temporary_path();
	fill(&recording);
	recording.clock.mult = 0;
	CHECK_EQ(perf_data_write(path, &recording, "x"), 0);
	CHECK_EQ(perf_data_read(path, &again, &truncated, why, sizeof(why)), 0);
	CHECK_EQ(again.clock.mult, 0);
	for (size_t i = 0; i < again.events.len; i++) {
		CHECK_EQ(again.events.data[i].time_ns, 0);
		CHECK_EQ(again.events.data[i].kind, recording.events.data[i].kind);
	}
	recording_fini(&recording);
	recording_fini(&again);
	unlink(path);
}

UNIT_MAIN("unit/perf_data")
