// SPDX-License-Identifier: GPL-2.0-only
/*
 * Drives the software tracer without BPF, budget or session: every thread gets a ring of the same
 * size. Writes DIR/TID.pt, and DIR/PID.maps (the executable mappings as they appeared, with the
 * vdso's bytes in DIR/PID.vdso) so that softcheck can decode them. With --insns the stepped
 * instructions go beside them.
 *
 * links: record/aux_ring record/soft/soft record/soft/stepper record/soft/threads
 * links: record/soft/requests record/soft/launch record/soft/births record/soft/stops
 * links: record/comm record/soft/advance record/soft/record record/soft/blocks record/soft/fires
 * links: record/soft/syscalls record/soft/traps record/soft/affinity record/soft/rseq
 * links: record/soft/detach record/soft/code record/soft/encoder
 * links: record/soft/block_alu record/soft/block_cache record/soft/block_exec
 * links: record/soft/block_mem record/soft/block_outcome record/soft/block_plan
 * links: record/soft/block_resolve record/soft/block_vec
 * links: record/trigger_match record/trigger_condition
 * links: image/insn image/insn_ops base/clock base/duration base/limits base/log base/size
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/size.h"
#include "base/vec.h"
#include "record/source.h"

struct ring {
	pid_t tid;
	struct aux_ring ring;
};

struct options {
	struct source_config config;
	const char *dir;
	uint64_t ring_size;
	uint64_t resize_every; /* rings change size at every so many events; 0: never */
	pid_t pid;
	bool quiet;
	unsigned int cycle_ms; /* take and give all rings this often */
};

struct recorder {
	struct options options;
	struct source *source;
	VEC(struct ring) rings;
	int status;
	bool ended;
	uint64_t gaps, branches;
};

static struct ring *ring_find(struct recorder *recorder, pid_t tid)
{
	struct ring *ring;

	vec_for_each(ring, &recorder->rings) {
		if (ring->tid == tid)
			return ring;
	}
	return NULL;
}

static void die(int err, const char *what)
{
	log_errno(err, "%s", what);
	exit(1);
}

static void copy_maps(const struct recorder *recorder, pid_t pid)
{
	char path[512], line[4600], out[512];
	FILE *from, *to;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	snprintf(out, sizeof(out), "%s/%d.maps", recorder->options.dir, pid);
	from = fopen(path, "re");
	to = fopen(out, "ae");
	while (from && to && fgets(line, sizeof(line), from)) {
		uint64_t start, end;
		char prot[5];

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &start, &end, prot) != 3 ||
		    prot[2] != 'x')
			continue;
		fputs(line, to);
		if (strstr(line, "[vdso]")) {
			const size_t n = end - start;
			char *bytes = malloc(n);
			char vdso[512];
			int mem, fd;

			snprintf(path, sizeof(path), "/proc/%d/mem", pid);
			snprintf(vdso, sizeof(vdso), "%s/%d.vdso", recorder->options.dir, pid);
			mem = open(path, O_RDONLY);
			/* a process that was just killed has none: what was saved before stays */
			if (mem >= 0 && bytes && pread(mem, bytes, n, (off_t)start) == (ssize_t)n) {
				fd = open(vdso, O_WRONLY | O_CREAT | O_TRUNC, 0600);
				if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
					die(-errno, vdso);
				close(fd);
			}
			close(mem);
			free(bytes);
		}
	}
	if (from)
		fclose(from);
	if (to)
		fclose(to);
}

static void save_ring(const struct recorder *recorder, struct ring *ring, bool append)
{
	const struct aux_ring_header *header = ring->ring.header;
	uint8_t *bytes = malloc(ring->ring.size);
	char path[512];
	bool wrapped;
	size_t n;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%d.pt", recorder->options.dir, ring->tid);
	n = aux_ring_read(&ring->ring, UINT64_MAX, bytes, &wrapped);
	file = fopen(path, append ? "ae" : "we");
	if (!file || fwrite(bytes, 1, n, file) != n)
		die(-errno, path);
	fclose(file);
	if (!recorder->options.quiet)
		printf("tid %d: %" PRIu64 " bytes%s, %" PRIu64 " instructions, %" PRIu64
		       " branches, %" PRIu64 " stops\n",
		       ring->tid, header->head, wrapped ? " (wrapped)" : "", header->instructions,
		       header->branches, header->stops);
	free(bytes);
}

static void give(struct recorder *recorder, pid_t tid)
{
	struct ring ring = { .tid = tid };
	int err = aux_ring_new(recorder->options.ring_size, &ring.ring);

	if (err)
		die(err, "ring");
	err = recorder->source->ops->ring_give(recorder->source, tid, &ring.ring);
	if (err == -ESRCH || err == -EEXIST) {
		aux_ring_free(&ring.ring);
		return;
	}
	if (err || vec_push(&recorder->rings, ring))
		die(err, "give ring");
}

static void forget(struct recorder *recorder, struct ring *ring)
{
	recorder->branches += ring->ring.header->branches;
	aux_ring_free(&ring->ring);
	*ring = recorder->rings.data[--recorder->rings.len];
}

static void on_event(struct recorder *recorder, const struct source_event *event)
{
	const struct source_ops *ops = recorder->source->ops;
	struct ring *ring;

	log_debug("event %d pid %d tid %d status %#x %s", event->kind, event->pid, event->tid,
		  event->status, event->text);
	switch (event->kind) {
	case SOURCE_EXEC:
	case SOURCE_BIRTH:
	case SOURCE_FORK:
		copy_maps(recorder, event->pid);
		if (!ring_find(recorder, event->tid) &&
		    (recorder->options.config.multi_thread || event->kind != SOURCE_BIRTH ||
		     !recorder->rings.len))
			give(recorder, event->tid);
		ops->release(recorder->source, event->tid);
		break;
	case SOURCE_MAPPED:
	case SOURCE_ENTRY:
	case SOURCE_EXITING:
	case SOURCE_UNMAPPING:
		copy_maps(recorder, event->pid);
		ops->release(recorder->source, event->tid);
		break;
	case SOURCE_EXIT:
		ring = ring_find(recorder, event->tid);
		if (ring) {
			save_ring(recorder, ring, recorder->options.cycle_ms);
			forget(recorder, ring);
		}
		break;
	case SOURCE_GAP:
		recorder->gaps++;
		if (!recorder->options.quiet)
			printf("tid %d: gap %s of %" PRIu64 " ns\n", event->tid, event->text,
			       event->length_ns);
		break;
	case SOURCE_END:
		recorder->status = event->status;
		recorder->ended = true;
		break;
	case SOURCE_FAILED:
		die(-EIO, event->text);
		break;
	default:
		break;
	}
}

/* Rings are taken and given back while everything runs, as a change of size does. */
static void cycle(struct recorder *recorder)
{
	struct ring *ring;

	vec_for_each(ring, &recorder->rings) {
		const struct source_ops *ops = recorder->source->ops;
		const pid_t tid = ring->tid;

		if (ops->ring_take(recorder->source, tid, true))
			continue;
		save_ring(recorder, ring, true);
		aux_ring_free(&ring->ring);
		if (aux_ring_new(recorder->options.ring_size, &ring->ring))
			die(-ENOMEM, "ring");
		ops->ring_give(recorder->source, tid, &ring->ring);
	}
}

static void run(struct recorder *recorder)
{
	const int timeout = recorder->options.cycle_ms ? (int)recorder->options.cycle_ms : -1;
	struct source_event event;

	while (!recorder->ended) {
		struct pollfd polled = { .fd = recorder->source->ops->fd(recorder->source),
					 .events = POLLIN };
		int more;

		if (poll(&polled, 1, timeout) == 0)
			cycle(recorder);
		while ((more = recorder->source->ops->next(recorder->source, &event)) > 0)
			on_event(recorder, &event);
		if (more < 0)
			die(more, "the stepper is gone");
	}
}

static int parse_step(const char *text)
{
	static const char *const names[] = { "block", "insn", "verify" };

	for (int i = 0; i < 3; i++) {
		if (!strcmp(text, names[i]))
			return i;
	}
	die(-EINVAL, text);
	return 0;
}

static void parse(struct options *options, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "step", 1, NULL, 's' },         { "ring", 1, NULL, 'r' },
		{ "insns", 1, NULL, 'i' },        { "step-clock", 0, NULL, 'c' },
		{ "no-aslr", 0, NULL, 'a' },      { "multi-thread", 0, NULL, 'm' },
		{ "follow-forks", 0, NULL, 'f' }, { "pid", 1, NULL, 'p' },
		{ "quiet", 0, NULL, 'q' },        { "cycle-ms", 1, NULL, 'y' },
		{ "verbose", 0, NULL, 'v' },      { NULL, 0, NULL, 0 },
	};
	int c;

	options->ring_size = 64 << 20;
	while ((c = getopt_long(argc, argv, "+p:qv", longs, NULL)) != -1) {
		switch (c) {
		case 's':
			options->config.soft_step = (enum soft_step)parse_step(optarg);
			break;
		case 'r':
			if (size_parse(optarg, &options->ring_size))
				die(-EINVAL, optarg);
			break;
		case 'i':
			options->config.insn_log = optarg;
			break;
		case 'c':
			options->config.step_clock = true;
			break;
		case 'a':
			options->config.no_aslr = true;
			break;
		case 'm':
			options->config.multi_thread = true;
			break;
		case 'f':
			options->config.follow_forks = true;
			break;
		case 'p':
			options->pid = atoi(optarg);
			break;
		case 'q':
			options->quiet = true;
			break;
		case 'y':
			options->cycle_ms = (unsigned int)atoi(optarg);
			break;
		case 'v':
			log_set_level(LOG_DEBUG);
			break;
		default:
			exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	struct recorder recorder = { 0 };
	struct source_target target = { 0 };
	struct source_stats stats = { 0 };
	char why[256] = "";
	int err;

	parse(&recorder.options, argc, argv);
	if (optind >= argc)
		die(-EINVAL, "softrec [OPTIONS] DIR [-- CMD]");
	recorder.options.dir = argv[optind];
	mkdir(argv[optind], 0700);
	if (recorder.options.pid) {
		target.pids = &recorder.options.pid;
		target.n_pids = 1;
	} else {
		target.argv = argv + optind + 1;
		if (target.argv[0] && !strcmp(target.argv[0], "--"))
			target.argv++;
	}
	signal(SIGINT, SIG_IGN);
	err = soft_source_open(&recorder.options.config, &recorder.source);
	if (!err)
		err = recorder.source->ops->start(recorder.source, &target, why, sizeof(why));
	if (err) {
		log_err("%s", why);
		exit(5);
	}
	run(&recorder);
	recorder.source->ops->stats(recorder.source, &stats);
	printf("status %#x, %" PRIu64 " instructions, %" PRIu64 " stops, %" PRIu64
	       " single steps instead of blocks, %" PRIu64 " disagreements, %" PRIu64
	       " gaps, %.2f us an instruction, %.0f times slower, %" PRIu64 " branches\n",
	       (unsigned int)recorder.status, stats.instructions, stats.stops, stats.fallback_steps,
	       stats.disagreements, recorder.gaps,
	       stats.instructions ? (double)stats.stepping_ns / 1e3 / (double)stats.instructions :
				    0.0,
	       stats.slow_down, recorder.branches);
	recorder.source->ops->close(recorder.source);
	vec_free(&recorder.rings);
	if (stats.disagreements)
		return 9;
	if (recorder.options.config.soft_step == SOFT_STEP_VERIFY && !stats.verified)
		return 10;
	return WIFEXITED(recorder.status) ? WEXITSTATUS(recorder.status) : 1;
}
