// SPDX-License-Identifier: GPL-2.0-only
/*
 * mkrecording DIR RUNS ON OFF COMMAND...: a snapshot directory DIR of COMMAND, single-stepped by
 * the plainest tracer there can be and independent of ptbpf's own. Each of RUNS runs becomes a
 * thread of one process (the command must not depend on its addresses: a static program). Tracing
 * is on for ON instructions, then off for OFF, and so on (OFF 0: always on); each stretch is a
 * chunk.
 *
 * DIR gets perf.data, images/, and insns.TID: each executed and traced instruction's address.
 *
 * links: snapshot/recording snapshot/perf_data_write snapshot/perf_features snapshot/sink
 * links: snapshot/images image/insn base/clock
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <intel-pt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image/insn.h"
#include "snapshot/images.h"
#include "snapshot/perf_data.h"

#define PSB_PERIOD 2048
#define FIRST_TID 100001
#define MAX_TRACE (64u << 20)

struct range {
	uint64_t begin, end;
	bool saved; /* its bytes lie in images/ */
	bool to_save;
	char name[64];
};

struct tracer {
	struct recording recording;
	char dir[4096];
	int images_fd;
	pid_t child, tid;
	uint64_t on, off;
	struct range ranges[256];
	size_t n_ranges;
	struct pt_encoder *encoder;
	uint8_t *buffer;
	uint64_t start_ns;
	uint64_t end_before_ns;
	uint64_t psb_at;
	uint8_t tnt_bits;
	uint64_t tnt;
	bool tracing;
	size_t chunks_of_run;
	FILE *insns;
};

#define DIE(...)                              \
	do {                                  \
		fprintf(stderr, __VA_ARGS__); \
		exit(1);                      \
	} while (0)

static void put(struct tracer *t, struct pt_packet packet)
{
	const int err = pt_enc_next(t->encoder, &packet);

	if (err < 0)
		DIE("encode: %s\n", pt_errstr(pt_errcode(err)));
}

static void put_ip(struct tracer *t, enum pt_packet_type type, uint64_t ip, bool suppress)
{
	put(t, (struct pt_packet){
		       .type = type,
		       .payload.ip = { suppress ? pt_ipc_suppressed : pt_ipc_sext_48, ip } });
}

static void flush_tnt(struct tracer *t)
{
	if (t->tnt_bits)
		put(t, (struct pt_packet){ .type = t->tnt_bits > 6 ? ppt_tnt_64 : ppt_tnt_8,
					   .payload.tnt = { t->tnt_bits, t->tnt } });
	t->tnt_bits = 0;
	t->tnt = 0;
}

static void put_tsc(struct tracer *t)
{
	put(t, (struct pt_packet){ .type = ppt_tsc, .payload.tsc.tsc = clock_tsc() });
}

static void put_psb(struct tracer *t, uint64_t ip, bool with_ip)
{
	put(t, (struct pt_packet){ .type = ppt_psb });
	put_tsc(t);
	put(t, (struct pt_packet){ .type = ppt_mode,
				   .payload.mode = { .leaf = pt_mol_exec,
						     .bits.exec = { .csl = 1, .csd = 0 } } });
	if (with_ip)
		put_ip(t, ppt_fup, ip, false);
	put(t, (struct pt_packet){ .type = ppt_psbend });
	pt_enc_get_offset(t->encoder, &t->psb_at);
}

static void begin_chunk(struct tracer *t, uint64_t ip)
{
	struct pt_config config;

	pt_config_init(&config);
	config.begin = t->buffer;
	config.end = t->buffer + MAX_TRACE;
	t->encoder = pt_alloc_encoder(&config);
	if (!t->encoder)
		DIE("no encoder\n");
	t->start_ns = clock_now_ns();
	put_psb(t, ip, false);
	put_tsc(t);
	put_ip(t, ppt_tip_pge, ip, false);
	t->tracing = true;
}

static void end_chunk(struct tracer *t, uint64_t ip, bool died)
{
	struct recording_chunk chunk = { .pid = FIRST_TID, .tid = t->tid };

	if (!died) {
		flush_tnt(t);
		put_ip(t, ppt_fup, ip, false);
		put_ip(t, ppt_tip_pgd, 0, true);
	}
	t->tnt_bits = 0;
	pt_enc_get_offset(t->encoder, &chunk.size);
	pt_free_encoder(t->encoder);
	chunk.data = malloc(chunk.size);
	memcpy(chunk.data, t->buffer, chunk.size);
	chunk.start_ns = t->start_ns;
	chunk.end_ns = clock_now_ns();
	if (t->chunks_of_run++ == 0) {
		chunk.join = RECORDING_JOIN_BIRTH;
	} else {
		/* Every third gap pretends that bytes were lost. */
		chunk.data_lost = t->chunks_of_run % 3 == 0;
		chunk.join = chunk.data_lost ? RECORDING_JOIN_LOST : RECORDING_JOIN_UNTRACED;
		chunk.gap_ns = t->start_ns - t->end_before_ns;
	}
	t->end_before_ns = chunk.end_ns;
	recording_add_chunk(&t->recording, &chunk);
	t->tracing = false;
}

/* Bytes of the child's memory; the count that is there. */
static size_t read_memory(const struct tracer *t, uint64_t addr, void *out, size_t size)
{
	const struct iovec local = { out, size }, remote = { (void *)addr, size };
	const ssize_t n = process_vm_readv(t->child, &local, 1, &remote, 1, 0);

	return n < 0 ? 0 : (size_t)n;
}

static void save_image(struct tracer *t, const struct range *range, struct image_file *image)
{
	const size_t size = range->end - range->begin;
	uint8_t *bytes = calloc(1, size);
	const size_t n = read_memory(t, range->begin, bytes, size);
	const int err = image_file_write(t->images_fd, range->name, bytes, n, image);

	if (err)
		DIE("images/%s: %s\n", range->name, strerror(-err));
	free(bytes);
}

static void fill_build_id(struct recording_map *map)
{
	static uint8_t file[16 << 20];
	const int fd = open(map->path, O_RDONLY);
	const ssize_t n = fd < 0 ? 0 : read(fd, file, sizeof(file));

	if (n > 0)
		map->build_id_size = image_build_id(file, (size_t)n, map->build_id);
	if (fd >= 0)
		close(fd);
}

static void add_map(struct tracer *t, const char *line)
{
	struct recording_event event = {
		.kind = RECORDING_MAP, .time_ns = clock_now_ns(), .pid = FIRST_TID, .tid = t->tid
	};
	struct range *range = &t->ranges[t->n_ranges];
	char prot[8], path[4096] = "";
	uint64_t begin, end, offset, ino;
	unsigned int maj, min;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %x:%x %" SCNu64 " %4095[^\n]",
		   &begin, &end, prot, &offset, &maj, &min, &ino, path) < 7 ||
	    prot[2] != 'x' || !strcmp(path, "[vsyscall]"))
		return;
	for (size_t i = 0; i < t->n_ranges; i++) {
		if (t->ranges[i].begin == begin && t->ranges[i].end == end)
			return;
	}
	*range = (struct range){ .begin = begin, .end = end };
	event.map = (struct recording_map){ .addr = begin,
					    .len = end - begin,
					    .pgoff = offset,
					    .prot = PROT_READ | PROT_EXEC,
					    .flags = MAP_PRIVATE,
					    .maj = maj,
					    .min = min,
					    .ino = ino };
	if (path[0] == '/') {
		event.map.path = strdup(path);
		fill_build_id(&event.map);
	} else {
		struct image_file image;

		snprintf(range->name, sizeof(range->name), "%s-%" PRIx64,
			 strcmp(path, "[vdso]") ? "anon" : "vdso", begin);
		save_image(t, range, &image);
		event.map.pgoff = image.pgoff;
		event.map.build_id_size = image.build_id_size;
		memcpy(event.map.build_id, image.build_id, sizeof(image.build_id));
		if (asprintf(&event.map.path, "%s/images/%s", t->dir, range->name) < 0)
			DIE("out of memory\n");
	}
	t->n_ranges++;
	recording_add_event(&t->recording, &event);
}

static void read_maps(struct tracer *t)
{
	char name[64], line[4352];
	FILE *file;

	snprintf(name, sizeof(name), "/proc/%d/maps", t->child);
	file = fopen(name, "r");
	while (file && fgets(line, sizeof(line), file))
		add_map(t, line);
	if (file)
		fclose(file);
}

static void add_comm(struct tracer *t, bool exec)
{
	struct recording_event event = {
		.kind = RECORDING_COMM, .time_ns = clock_now_ns(), .pid = FIRST_TID, .tid = t->tid
	};

	snprintf(event.comm.name, sizeof(event.comm.name), "run%d", t->tid - FIRST_TID);
	event.comm.exec = exec;
	recording_add_event(&t->recording, &event);
}

static void add_task(struct tracer *t, enum recording_event_kind kind)
{
	const struct recording_event event = { .kind = kind,
					       .time_ns = clock_now_ns(),
					       .pid = FIRST_TID,
					       .tid = t->tid,
					       .parent = { FIRST_TID, FIRST_TID } };

	recording_add_event(&t->recording, &event);
}

/* The packets of the instruction at @ip, which was executed and led to @next. */
static void encode(struct tracer *t, const struct insn *insn, uint64_t ip, uint64_t next)
{
	uint64_t offset;

	switch (insn->class) {
	case INSN_JCC:
		t->tnt = t->tnt << 1 | (next != ip + insn->length);
		if (++t->tnt_bits == 40)
			flush_tnt(t);
		break;
	case INSN_JMP_IND:
	case INSN_CALL_IND:
	case INSN_RET:
		flush_tnt(t);
		put_ip(t, ppt_tip, next, false);
		break;
	case INSN_FAR:
		flush_tnt(t);
		put_ip(t, ppt_tip_pgd, 0, true);
		read_maps(t);
		put_tsc(t);
		put_ip(t, ppt_tip_pge, next, false);
		break;
	default:
		break;
	}
	pt_enc_get_offset(t->encoder, &offset);
	if (offset - t->psb_at > PSB_PERIOD) {
		flush_tnt(t);
		put_psb(t, next, true);
	}
}

static uint64_t child_ip(const struct tracer *t)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, t->child, NULL, &regs))
		DIE("registers: %s\n", strerror(errno));
	return regs.rip;
}

/* One single step; false when the child is gone. */
static bool step(const struct tracer *t)
{
	int status;

	if (ptrace(PTRACE_SINGLESTEP, t->child, NULL, 0) ||
	    waitpid(t->child, &status, 0) != t->child)
		DIE("step: %s\n", strerror(errno));
	if (WIFSTOPPED(status) && WSTOPSIG(status) != SIGTRAP)
		DIE("signal %d\n", WSTOPSIG(status));
	return WIFSTOPPED(status);
}

static void step_all(struct tracer *t)
{
	uint64_t ip = child_ip(t), phase = 0;

	for (;;) {
		uint8_t bytes[15];
		const size_t n = read_memory(t, ip, bytes, sizeof(bytes));
		struct insn insn;
		uint64_t next;

		if (insn_decode(bytes, n, ip, 64, &insn))
			DIE("no instruction at %" PRIx64 "\n", ip);
		if (!t->tracing && phase == 0)
			begin_chunk(t, ip);
		if (!step(t)) {
			/* exit_group: the thread leaves the traced code for good. */
			if (t->tracing) {
				fprintf(t->insns, "%" PRIx64 "\n", ip);
				flush_tnt(t);
				put_ip(t, ppt_tip_pgd, 0, true);
				end_chunk(t, ip, true);
			}
			return;
		}
		next = child_ip(t);
		if (next == ip && insn.is_rep_string)
			continue;
		if (t->tracing) {
			fprintf(t->insns, "%" PRIx64 "\n", ip);
			encode(t, &insn, ip, next);
		} else if (insn.class == INSN_FAR) {
			read_maps(t);
		}
		phase++;
		if (t->off && t->tracing && phase == t->on)
			end_chunk(t, next, false);
		if (t->off && phase == t->on + t->off)
			phase = 0;
		ip = next;
	}
}

static void start(struct tracer *t, char *const *argv)
{
	int status;

	t->child = fork();
	if (t->child == 0) {
		personality(ADDR_NO_RANDOMIZE);
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execv(argv[0], argv);
		_exit(127);
	}
	if (waitpid(t->child, &status, 0) != t->child || !WIFSTOPPED(status))
		DIE("%s: cannot start\n", argv[0]);
	ptrace(PTRACE_SETOPTIONS, t->child, NULL, PTRACE_O_EXITKILL);
}

static void run(struct tracer *t, int number, char *const *argv)
{
	char name[4200];

	t->tid = FIRST_TID + number;
	t->chunks_of_run = 0;
	/* The vdso may lie elsewhere in each run; what it covered in the one before counts no more.
	 */
	t->n_ranges = 0;
	snprintf(name, sizeof(name), "%s/insns.%d", t->dir, t->tid);
	t->insns = fopen(name, "w");
	if (!t->insns)
		DIE("%s: %s\n", name, strerror(errno));
	if (number)
		add_task(t, RECORDING_FORK);
	start(t, argv);
	add_comm(t, number == 0);
	read_maps(t);
	step_all(t);
	add_task(t, RECORDING_EXIT);
	fclose(t->insns);
}

int main(int argc, char **argv)
{
	static struct tracer t;
	struct clock_pair pairs[2] = { clock_read_pair() };
	char name[4200];
	int err;

	if (argc < 6)
		DIE("usage: mkrecording DIR RUNS ON OFF COMMAND...\n");
	t.on = strtoull(argv[3], NULL, 0);
	t.off = strtoull(argv[4], NULL, 0);
	t.buffer = malloc(MAX_TRACE);
	mkdir(argv[1], 0700);
	if (!realpath(argv[1], t.dir))
		DIE("%s: %s\n", argv[1], strerror(errno));
	snprintf(name, sizeof(name), "%s/images", t.dir);
	mkdir(name, 0700);
	t.images_fd = open(name, O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < atoi(argv[2]); i++)
		run(&t, i, argv + 5);
	pairs[1] = clock_read_pair();
	err = clock_fit(pairs, 2, &t.recording.clock);
	t.recording.pt.config = 1 | 1 << 10 | 1 << 11 | 1 << 13; /* TSC, no RET compression */
	t.recording.cpu = (struct recording_cpu){ true, 6, 85, 7 };
	if (!err)
		err = recording_sort(&t.recording);
	snprintf(name, sizeof(name), "%s/perf.data", t.dir);
	if (!err)
		err = perf_data_write(name, &t.recording, argv[5]);
	if (err)
		DIE("%s: %s\n", name, strerror(-err));
	printf("%zu chunks, %zu events\n", t.recording.chunks.len, t.recording.events.len);
	recording_fini(&t.recording);
	free(t.buffer);
	return 0;
}
