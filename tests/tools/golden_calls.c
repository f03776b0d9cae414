// SPDX-License-Identifier: GPL-2.0-only
/*
 * links: calls/calls calls/stack calls/slices calls/timeline decode/branch
 *
 * Runs branch events from a case file through calls/ and prints the slices as an indented tree.
 *
 *	[functions]
 *	main 1000 1100            name, start and end in hex
 *	main.cold 5000 5100 part-of main
 *	puts@plt 2000 2010 stub
 *	_Unwind_Resume 3000 3100 resumes-unwind
 *	[options]                 birth | exec TIME | end TIME
 *	[events]
 *	call main+10 -> foo       KIND [FROM] [-> TO] and any of
 *	                          #N instructions (1), @T exact at T (default: N after the one
 *	                          before), ~ no timestamp here, i indirect, gap=REASON
 *
 * A call is 5 bytes long, a system call 2. Output: depth, name, begin-end, and what is not plain.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "calls/calls.h"

#define MAX_FUNCTIONS 64

struct function {
	char name[40];
	uint64_t start, end;
	int parent; /* index; itself */
	bool is_stub, resumes_unwind;
};

struct reader {
	struct function functions[MAX_FUNCTIONS];
	int n;
	uint64_t execs[8];
	size_t n_execs;
	bool from_birth;
	uint64_t end_ns, time_ns;
	VEC(struct branch) branches;
};

static void die(const char *what, const char *line)
{
	fprintf(stderr, "%s: %s\n", what, line);
	exit(1);
}

static int find_function(const struct reader *reader, const char *name, size_t length)
{
	for (int i = 0; i < reader->n; i++) {
		if (strlen(reader->functions[i].name) == length &&
		    !strncmp(reader->functions[i].name, name, length))
			return i;
	}
	return -1;
}

static bool look_up(void *ctx, uint64_t addr, uint64_t time_ns, struct calls_function *function)
{
	const struct reader *reader = ctx;

	(void)time_ns;
	for (int i = 0; i < reader->n; i++) {
		const struct function *it = &reader->functions[i];

		if (addr < it->start || addr >= it->end)
			continue;
		*function = (struct calls_function){
			.id = (uint32_t)it->parent,
			.entry = reader->functions[it->parent].start,
			.start = it->start,
			.end = it->end,
			.is_stub = it->is_stub,
			.resumes_unwind = it->resumes_unwind,
		};
		return true;
	}
	function->start = addr & ~0xffffull;
	function->end = function->start + 0x10000;
	return false;
}

static void read_function(struct reader *reader, const char *line)
{
	struct function *it = &reader->functions[reader->n];
	char word[24] = "", parent[40] = "";

	if (reader->n == MAX_FUNCTIONS || sscanf(line, "%39s %" SCNx64 " %" SCNx64 " %23s %39s",
						 it->name, &it->start, &it->end, word, parent) < 3)
		die("bad function", line);
	it->parent = reader->n;
	it->is_stub = !strcmp(word, "stub");
	it->resumes_unwind = !strcmp(word, "resumes-unwind");
	if (!strcmp(word, "part-of"))
		it->parent = find_function(reader, parent, strlen(parent));
	if (it->parent < 0)
		die("no such parent", line);
	reader->n++;
}

static uint64_t read_address(const struct reader *reader, const char *text)
{
	const char *plus = strchr(text, '+');
	const int i = find_function(reader, text, plus ? (size_t)(plus - text) : strlen(text));

	if (i < 0)
		return strtoull(text, NULL, 16);
	return reader->functions[i].start + (plus ? strtoull(plus + 1, NULL, 16) : 0);
}

static int read_kind(const char *word)
{
	for (int kind = BRANCH_CALL; kind <= BRANCH_GAP; kind++) {
		if (!strcmp(branch_kind_name((enum branch_kind)kind), word))
			return kind;
	}
	return -1;
}

static void read_event(struct reader *reader, char *line)
{
	struct branch branch = { .insns = 1, .flags = BRANCH_TIME_EXACT };
	char *word = strtok(line, " \t");
	const int kind = read_kind(word);
	bool timed = false, to = false;

	if (kind < 0)
		die("bad kind", word);
	branch.kind = (uint8_t)kind;
	branch.from_size = kind == BRANCH_CALL ? 5 : kind == BRANCH_SYSCALL ? 2 : 1;
	if (kind == BRANCH_BEGIN || kind == BRANCH_GAP)
		branch.insns = 0;
	while ((word = strtok(NULL, " \t"))) {
		if (!strcmp(word, "->")) {
			to = true;
		} else if (*word == '#') {
			branch.insns = (uint32_t)strtoul(word + 1, NULL, 0);
		} else if (*word == '@') {
			reader->time_ns = strtoull(word + 1, NULL, 0);
			timed = true;
		} else if (*word == '~') {
			branch.flags &= (uint8_t)~BRANCH_TIME_EXACT;
			timed = true;
		} else if (!strcmp(word, "i")) {
			branch.flags |= BRANCH_INDIRECT;
		} else if (!strncmp(word, "gap=", 4)) {
			for (int gap = 0; gap < GAP_COUNT; gap++) {
				if (!strcmp(branch_gap_name((enum branch_gap)gap), word + 4))
					branch.gap = (uint8_t)gap;
			}
		} else if (to) {
			branch.to = read_address(reader, word);
		} else {
			branch.from = read_address(reader, word);
		}
	}
	if (!timed)
		reader->time_ns += branch.insns;
	branch.time_ns = reader->time_ns;
	if (vec_push(&reader->branches, branch))
		exit(1);
}

static void read_case(struct reader *reader, FILE *file)
{
	char line[256], section[32] = "";

	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strcmp(line, "[expect]"))
			return;
		if (sscanf(line, "[%31[a-z]]", section) == 1 || !*line || *line == ';')
			continue;
		if (!strcmp(section, "functions"))
			read_function(reader, line);
		else if (!strcmp(section, "events"))
			read_event(reader, line);
		else if (!strcmp(section, "options") && !strcmp(line, "birth"))
			reader->from_birth = true;
		else if (!strcmp(section, "options") && !strncmp(line, "exec ", 5))
			reader->execs[reader->n_execs++ % 8] = strtoull(line + 5, NULL, 0);
		else if (!strcmp(section, "options") && !strncmp(line, "end ", 4))
			reader->end_ns = strtoull(line + 4, NULL, 0);
		else if (*section)
			die("bad line", line);
	}
}

static const char *edge_name(uint8_t edge)
{
	static const char *const names[] = { "seen", "inferred", "unwound", "switched" };

	return names[edge];
}

static void print_slices(const struct reader *reader, const struct thread_timeline *thread)
{
	const struct slice *slice;
	const struct gap *gap;

	vec_for_each(slice, &thread->slices) {
		printf("%*s", (int)slice->depth * 2, "");
		if (slice->name == CALLS_NO_NAME)
			printf("0x%" PRIx64, slice->address);
		else
			printf("%s", reader->functions[slice->name].name);
		printf(" %" PRIu64 "-%" PRIu64 " self %" PRIu64 " insns %" PRIu64, slice->begin_ns,
		       slice->end_ns, slice->self_ns, slice->insns);
		if (slice->begin_edge != EDGE_SEEN)
			printf(" begin:%s", edge_name(slice->begin_edge));
		if (slice->end_edge != EDGE_SEEN)
			printf(" end:%s", edge_name(slice->end_edge));
		printf("%s%s%s%s%s\n", slice->signal_handler ? " signal" : "",
		       slice->flags & SLICE_BEGIN_SPREAD ? " ~begin" : "",
		       slice->flags & SLICE_END_SPREAD ? " ~end" : "",
		       slice->flags & SLICE_ACROSS_GAP ? " across-gap" : "",
		       slice->flags & SLICE_ASSUMED ? " assumed" : "");
	}
	vec_for_each(gap, &thread->gaps)
		printf("gap %s %" PRIu64 "-%" PRIu64 "%s\n",
		       branch_gap_name((enum branch_gap)gap->reason), gap->begin_ns, gap->end_ns,
		       gap->error ? " error" : "");
	printf("inferred %" PRIu64 " of %zu\n", thread->inferred, thread->slices.len);
}

int main(int argc, char **argv)
{
	static struct reader reader;
	struct timeline timeline = { .command = NULL };
	struct thread_timeline *thread = calloc(1, sizeof(*thread));
	scoped_file FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
	struct calls_options options = { .lookup = look_up, .lookup_ctx = &reader };
	struct calls *calls = NULL;

	if (!file || !thread)
		die("cannot read", argc == 2 ? argv[1] : "no case");
	timeline.threads.data = thread;
	timeline.threads.len = 1;
	read_case(&reader, file);
	options.from_birth = reader.from_birth;
	options.execs = reader.execs;
	options.n_execs = reader.n_execs;
	if (calls_new(thread, &options, &calls) ||
	    calls_feed(calls, reader.branches.data, reader.branches.len) ||
	    calls_finish(calls, reader.end_ns))
		die("no memory", argv[1]);
	print_slices(&reader, thread);
	calls_free(calls);
	vec_free(&reader.branches);
	timeline_fini(&timeline);
	return 0;
}
