// SPDX-License-Identifier: GPL-2.0-only
/*
 * Steps a program in one of three ways, to measure or to check the block planner without the rest
 * of the recorder:
 *   bare    PTRACE_SINGLESTEP and waitpid, nothing else
 *   block   plans and debug registers
 *   verify  single steps, each compared with the plan and with what resolve() makes of that place
 * links: record/soft/block_alu record/soft/block_cache record/soft/block_exec record/soft/block_mem
 * links: record/soft/block_outcome record/soft/block_plan record/soft/block_resolve
 * links: record/soft/block_vec image/insn image/insn_ops
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/vec.h"
#include "image/insn.h"
#include "record/soft/block_exec.h"

#define MAX_THREADS 1024

enum mode { BARE, BLOCK, VERIFY };

struct thread {
	pid_t tid;
	struct block_plan *plan;
	struct user_regs_struct regs;
	uint64_t debug[BLOCK_REGISTERS];
	bool armed;    /* DR7 is set */
	bool planned;  /* a plan is under way */
	bool stepping; /* the last resume was a single step */
	uint64_t syscall;
	bool in_syscall;
	/* verify: the truth since the plan was made */
	VEC(struct block_event) truth;
	uint64_t executed;
	struct block_mem *known; /* with state: what block_exec() makes of each step */
	struct block_state state;
	bool is_computed;
};

struct bench {
	enum mode mode;
	int start_signal;
	uint64_t max_steps;
	double max_seconds;
	struct block_cache *cache;
	struct block_reader reader;
	struct thread threads[MAX_THREADS];
	size_t n_threads;
	pid_t leader;
	bool never_alone; /* plans as if other threads ran */
	bool started;
	uint64_t instructions, stops, decisions, plans, pokes, single_steps, mid_checks, computed,
		bad;
	uint64_t random;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static size_t read_memory(void *ctx, uint64_t addr, void *buf, size_t size)
{
	const struct bench *bench = ctx;
	struct iovec local = { buf, size }, remote = { (void *)addr, size };
	ssize_t n = process_vm_readv(bench->leader, &local, 1, &remote, 1, 0);
	size_t first = 4096 - addr % 4096;

	if (n < 0 && first < size) {
		local.iov_len = remote.iov_len = first;
		n = process_vm_readv(bench->leader, &local, 1, &remote, 1, 0);
	}
	return n < 0 ? 0 : (size_t)n;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static bool is_alone(const struct bench *bench)
{
	return bench->n_threads == 1 && !bench->never_alone;
}

static struct thread *find_thread(struct bench *bench, pid_t tid)
{
	struct thread *thread;

	for (size_t i = 0; i < bench->n_threads; i++) {
		if (bench->threads[i].tid == tid)
			return &bench->threads[i];
	}
	if (bench->n_threads == MAX_THREADS)
		die("too many threads");
	thread = &bench->threads[bench->n_threads++];
	memset(thread, 0, sizeof(*thread));
	thread->tid = tid;
	if (block_plan_new(&thread->plan) || block_mem_new(&thread->known))
		die("block_plan_new");
	block_cache_set_exclusive(bench->cache, is_alone(bench));
	return thread;
}

static void drop_thread(struct bench *bench, pid_t tid)
{
	for (size_t i = 0; i < bench->n_threads; i++) {
		if (bench->threads[i].tid != tid)
			continue;
		block_plan_free(bench->threads[i].plan);
		block_mem_free(bench->threads[i].known);
		vec_free(&bench->threads[i].truth);
		bench->threads[i] = bench->threads[--bench->n_threads];
		break;
	}
	block_cache_set_exclusive(bench->cache, is_alone(bench));
}

/* The rseq areas of the threads, then /proc/PID/maps. */
static void load_regions(struct bench *bench)
{
	VEC(struct block_region) regions = { NULL, 0, 0 };
	char path[64], line[4400], perms[8], name[4096];
	uint64_t from, to;
	FILE *maps;

	for (size_t i = 0; i < bench->n_threads; i++) {
		struct __ptrace_rseq_configuration rseq;

		if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, bench->threads[i].tid, sizeof(rseq),
			   &rseq) > 0)
			vec_push(&regions, ((struct block_region){ rseq.rseq_abi_pointer,
								   rseq.rseq_abi_size + 32,
								   BLOCK_UNSTABLE }));
	}
	snprintf(path, sizeof(path), "/proc/%d/maps", bench->leader);
	maps = fopen(path, "re");
	if (!maps)
		return;
	while (fgets(line, sizeof(line), maps)) {
		struct block_region region;

		name[0] = 0;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*s %*s %*s %4095s", &from, &to,
			   perms, name) < 3)
			continue;
		region = (struct block_region){ from, to - from, BLOCK_PRIVATE };
		if (perms[3] != 'p' || strncmp(name, "[vvar", 5) == 0)
			region.kind = BLOCK_UNSTABLE;
		else if (perms[1] != 'w')
			region.kind = BLOCK_CONSTANT;
		vec_push(&regions, region);
		if (perms[1] == 'w' && perms[2] == 'x')
			block_cache_mark_volatile(bench->cache, from, to - from);
	}
	fclose(maps);
	if (block_cache_set_regions(bench->cache, regions.data, regions.len))
		die("block_cache_set_regions");
	for (size_t i = 0; i < bench->n_threads; i++) {
		if (block_mem_set_regions(bench->threads[i].known, regions.data, regions.len))
			die("block_mem_set_regions");
	}
	vec_free(&regions);
}

static bool changes_mappings(uint64_t number)
{
	switch (number) {
	case SYS_mmap:
	case SYS_munmap:
	case SYS_mprotect:
	case SYS_mremap:
	case SYS_brk:
	case SYS_shmat:
	case SYS_shmdt:
	case SYS_execve:
	case SYS_rseq:
		return true;
	default:
		return false;
	}
}

static void after_syscall(struct bench *bench, struct thread *thread)
{
	thread->in_syscall = false;
	if (!changes_mappings(thread->syscall))
		return;
	if (thread->syscall == SYS_munmap || thread->syscall == SYS_mmap)
		block_cache_invalidate(bench->cache,
				       thread->syscall == SYS_mmap ? thread->regs.rax :
								     thread->regs.rdi,
				       thread->regs.rsi);
	load_regions(bench);
}

static void set_registers(struct bench *bench, struct thread *thread)
{
	uint64_t next[BLOCK_REGISTERS];

	block_plan_registers(thread->plan, bench->cache, thread->debug, next);
	for (size_t i = 0; i < BLOCK_REGISTERS; i++) {
		if (next[i] == thread->debug[i])
			continue;
		if (ptrace(PTRACE_POKEUSER, thread->tid, offsetof(struct user, u_debugreg[i]),
			   next[i]))
			die("POKEUSER");
		thread->debug[i] = next[i];
		bench->pokes++;
	}
	if (thread->armed)
		return;
	if (ptrace(PTRACE_POKEUSER, thread->tid, offsetof(struct user, u_debugreg[7]), 0x55))
		die("POKEUSER DR7");
	thread->armed = true;
}

static void report(struct bench *bench, const struct thread *thread, const char *what,
		   const struct block_path *path)
{
	size_t same = 0;

	if (bench->bad++ >= 20)
		return;
	fprintf(stderr, "%s: tid %d at 0x%llx after %" PRIu64 " instructions, %zu events\n", what,
		thread->tid, thread->regs.rip, thread->executed, thread->truth.len);
	if (!path)
		return;
	while (same < path->n_events && same < thread->truth.len &&
	       !memcmp(&path->events[same], &thread->truth.data[same], 24))
		same++;
	fprintf(stderr, "  resolved: %" PRIu64 " instructions, %zu events", path->instructions,
		path->n_events);
	if (same < path->n_events && same < thread->truth.len)
		fprintf(stderr,
			", differ from number %zu: 0x%" PRIx64 " to 0x%" PRIx64
			" instead of 0x%" PRIx64 " to 0x%" PRIx64,
			same, path->events[same].from, path->events[same].to,
			thread->truth.data[same].from, thread->truth.data[same].to);
	fprintf(stderr, "\n");
}

static void count_path(struct bench *bench, const struct block_path *path)
{
	bench->instructions += path->instructions;
	for (size_t i = 0; i < path->n_events; i++)
		bench->decisions += path->events[i].kind != BLOCK_CALL;
}

static bool same_events(const struct block_path *path, const struct thread *thread)
{
	if (path->n_events != thread->truth.len || path->instructions != thread->executed)
		return false;
	for (size_t i = 0; i < path->n_events; i++) {
		const struct block_event *a = &path->events[i], *b = &thread->truth.data[i];

		if (a->from != b->from || a->to != b->to || a->kind != b->kind ||
		    a->return_address != b->return_address)
			return false;
	}
	return true;
}

/* What the step from @before to thread->regs was, from the instruction and both addresses alone. */
static void add_truth(struct bench *bench, struct thread *thread,
		      const struct user_regs_struct *before)
{
	struct block_event event = { .from = before->rip, .to = thread->regs.rip };
	uint8_t bytes[16];
	struct insn insn;
	size_t got = read_memory(bench, before->rip, bytes, 15);

	if (insn_decode(bytes, got, before->rip, 64, &insn))
		return;
	/* A rep string that goes on, or the stop at the end of exec. */
	if (insn.class == INSN_OTHER && thread->regs.rip == before->rip)
		return;
	thread->executed++;
	switch (insn.class) {
	case INSN_JCC:
		event.kind = thread->regs.rip == before->rip + insn.length ? BLOCK_NOT_TAKEN :
									     BLOCK_TAKEN;
		break;
	case INSN_CALL:
	case INSN_CALL_IND:
		event.kind = insn.class == INSN_CALL ? BLOCK_CALL : BLOCK_INDIRECT;
		event.return_address = before->rip + insn.length;
		break;
	case INSN_JMP_IND:
		event.kind = BLOCK_INDIRECT;
		break;
	case INSN_RET:
		event.kind = BLOCK_RETURN;
		break;
	default:
		return;
	}
	if (vec_push(&thread->truth, event))
		die("vec_push");
}

static bool at_stop(const struct thread *thread)
{
	uint64_t stops[BLOCK_REGISTERS];
	size_t n = block_plan_stops(thread->plan, stops);

	for (size_t i = 0; i < n; i++) {
		if (stops[i] == thread->regs.rip)
			return true;
	}
	return false;
}

/* Compares what resolve() says of this place with the steps taken; true: the plan is over. */
static bool check_place(struct bench *bench, struct thread *thread, bool is_over)
{
	struct block_path path;
	int err;

	is_over = is_over || (thread->executed && at_stop(thread));
	bench->random = bench->random * 6364136223846793005ull + 1442695040888963407ull;
	if (!is_over && bench->random >> 60)
		return false;
	err = block_plan_resolve(thread->plan, bench->cache, &thread->regs, &bench->reader, &path);
	if (err)
		report(bench, thread, "no path", NULL);
	else if (!same_events(&path, thread))
		report(bench, thread, "other path", &path);
	else if (is_over)
		count_path(bench, &path);
	bench->mid_checks += !is_over;
	return is_over || err;
}

/* Computes the instruction that is about to be stepped. */
static void compute(struct bench *bench, struct thread *thread)
{
	struct insn_ops ops;
	struct block_event event;
	struct block_site site;
	struct insn insn;
	uint8_t code[16];
	uint64_t next, ip = thread->regs.rip;
	size_t got = read_memory(bench, ip, code, 15);

	if (!thread->is_computed || thread->executed == 0) {
		block_mem_begin(thread->known, &bench->reader, is_alone(bench));
		block_state_init(&thread->state, &thread->regs);
	}
	thread->is_computed = false;
	if (insn_decode(code, got, ip, 64, &insn) || insn_ops_decode(code, got, ip, 64, &ops))
		return;
	site = (struct block_site){ &ops, ip, insn.length };
	if (ops.op == INSN_OP_REP)
		return;
	thread->is_computed =
		block_exec(&thread->state, thread->known, &site, &next, &event) <= BLOCK_FLOW_EVENT;
}

static void check_computed(struct bench *bench, struct thread *thread)
{
	if (!thread->is_computed || !thread->executed)
		return;
	bench->computed++;
	if (!block_state_matches(&thread->state, &thread->regs)) {
		report(bench, thread, "computed registers differ", NULL);
		thread->is_computed = false;
	}
}

static void make_plan(struct bench *bench, struct thread *thread)
{
	thread->truth.len = 0;
	thread->executed = 0;
	thread->planned =
		block_plan_make(thread->plan, bench->cache, &thread->regs, &bench->reader) == 0;
	bench->plans += thread->planned;
}

static void note_syscall(struct bench *bench, struct thread *thread)
{
	uint8_t bytes[2];

	if (thread->planned || read_memory(bench, thread->regs.rip, bytes, 2) != 2 ||
	    bytes[0] != 0x0f || bytes[1] != 0x05)
		return;
	thread->in_syscall = true;
	thread->syscall = thread->regs.rax;
}

static int resume(struct bench *bench, struct thread *thread, int sig)
{
	enum __ptrace_request request = PTRACE_SINGLESTEP;

	if (bench->mode == BLOCK && thread->planned) {
		set_registers(bench, thread);
		request = PTRACE_CONT;
	}
	if (bench->mode == VERIFY && thread->planned)
		compute(bench, thread);
	thread->stepping = request == PTRACE_SINGLESTEP;
	return (int)ptrace(request, thread->tid, 0, sig);
}

static void finish_plan(struct bench *bench, struct thread *thread)
{
	struct block_path path;

	if (!thread->planned)
		return;
	if (block_plan_resolve(thread->plan, bench->cache, &thread->regs, &bench->reader, &path))
		report(bench, thread, "no path", NULL);
	else
		count_path(bench, &path);
	thread->planned = false;
}

static void on_stop(struct bench *bench, struct thread *thread, int sig)
{
	struct user_regs_struct before = thread->regs;
	bool is_ours = sig == SIGTRAP;

	bench->stops++;
	if (bench->mode == BARE) {
		bench->instructions++;
		ptrace(PTRACE_SINGLESTEP, thread->tid, 0, is_ours ? 0 : sig);
		return;
	}
	if (ptrace(PTRACE_GETREGS, thread->tid, 0, &thread->regs))
		return;
	if (thread->in_syscall)
		after_syscall(bench, thread);
	if (bench->mode == VERIFY && thread->planned) {
		if (is_ours) {
			add_truth(bench, thread, &before);
			check_computed(bench, thread);
		}
		if (check_place(bench, thread, !is_ours))
			thread->planned = false;
	} else if (bench->mode == BLOCK) {
		if (thread->stepping) {
			bench->instructions++;
			bench->single_steps++;
		}
		finish_plan(bench, thread);
	} else {
		bench->instructions++;
		bench->single_steps++;
	}
	if (!thread->planned && is_ours) {
		make_plan(bench, thread);
		note_syscall(bench, thread);
	}
	resume(bench, thread, is_ours ? 0 : sig);
}

static bool is_over(const struct bench *bench, double begin)
{
	return (bench->max_steps && bench->instructions >= bench->max_steps) ||
	       (!(bench->stops % 256) && bench->max_seconds && now() - begin > bench->max_seconds);
}

/* Until the command sends itself the start signal, it runs at full speed. */
static bool on_start(struct bench *bench, struct thread *thread, int sig, int event)
{
	if (bench->started)
		return false;
	if (sig == bench->start_signal || (event && !bench->start_signal)) {
		bench->started = true;
		ptrace(PTRACE_GETREGS, thread->tid, 0, &thread->regs);
		load_regions(bench);
		return false;
	}
	ptrace(PTRACE_CONT, thread->tid, 0, sig == SIGTRAP ? 0 : sig);
	return true;
}

static void loop(struct bench *bench, double *begin)
{
	int status;
	pid_t tid;

	while ((tid = waitpid(-1, &status, __WALL)) > 0) {
		struct thread *thread = find_thread(bench, tid);
		int sig = WSTOPSIG(status), event = status >> 16;

		if (WIFEXITED(status) || WIFSIGNALED(status)) {
			drop_thread(bench, tid);
			continue;
		}
		if (!bench->started) {
			if (on_start(bench, thread, sig, event))
				continue;
			*begin = now();
			sig = SIGTRAP;
		}
		if (is_over(bench, *begin))
			return;
		if (event == PTRACE_EVENT_EXEC) {
			memset(thread->debug, 0, sizeof(thread->debug));
			thread->armed = false;
			block_cache_invalidate(bench->cache, 0, UINT64_MAX);
			load_regions(bench);
		}
		if (event == PTRACE_EVENT_CLONE || event == PTRACE_EVENT_STOP)
			thread->planned = false;
		if (event && event != PTRACE_EVENT_EXEC) {
			/* A new thread's first stop, or its parent's. */
			ptrace(PTRACE_GETREGS, tid, 0, &thread->regs);
			thread->planned = false;
			ptrace(PTRACE_SINGLESTEP, tid, 0, 0);
			thread->stepping = true;
			continue;
		}
		on_stop(bench, thread, sig);
	}
}

static pid_t launch(char **argv)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid)
		return pid;
	personality(ADDR_NO_RANDOMIZE);
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	raise(SIGSTOP);
	execvp(argv[0], argv);
	perror(argv[0]);
	_exit(127);
}

static void print(const struct bench *bench, double seconds)
{
	static const char *const names[] = { "bare", "block", "verify" };
	double stops = bench->stops ? (double)bench->stops : 1;
	double resolved = bench->plans ? (double)bench->plans : 1;

	printf("%s: %" PRIu64 " instructions in %.2f s, %.0f/s, %" PRIu64 " stops (%.2f us, %.1f "
	       "instructions each), %" PRIu64 " single steps\n",
	       names[bench->mode], bench->instructions, seconds,
	       (double)bench->instructions / seconds, bench->stops, seconds / stops * 1e6,
	       (double)bench->instructions / stops, bench->single_steps);
	if (bench->mode != BARE)
		printf("%s: %.2f decisions and %.2f debug register writes a plan, %" PRIu64
		       " plans, %" PRIu64 " places and %" PRIu64 " computed steps checked, %" PRIu64
		       " disagreements\n",
		       names[bench->mode], (double)bench->decisions / resolved,
		       (double)bench->pokes / resolved, bench->plans, bench->mid_checks,
		       bench->computed, bench->bad);
}

static int usage(void)
{
	fprintf(stderr, "usage: stepbench bare|block|verify [-n INSTRUCTIONS] [-s SECONDS] "
			"[-ux] -- CMD...\n  -u: begin when CMD gets SIGUSR1\n"
			"  -x: plan as if other threads ran at the same time\n");
	return 2;
}

int main(int argc, char **argv)
{
	static struct bench bench;
	double begin = now();
	int opt, status;

	if (argc < 3)
		return usage();
	bench.mode = strcmp(argv[1], "bare") == 0  ? BARE :
		     strcmp(argv[1], "block") == 0 ? BLOCK :
						     VERIFY;
	optind = 2;
	while ((opt = getopt(argc, argv, "+n:s:ux")) != -1) {
		if (opt == 'n')
			bench.max_steps = strtoull(optarg, NULL, 0);
		else if (opt == 's')
			bench.max_seconds = strtod(optarg, NULL);
		else if (opt == 'u')
			bench.start_signal = SIGUSR1;
		else if (opt == 'x')
			bench.never_alone = true;
		else
			return usage();
	}
	if (block_cache_new(&bench.cache))
		die("block_cache_new");
	bench.reader = (struct block_reader){ read_memory, read_memory, &bench };
	bench.leader = launch(argv + optind);
	if (waitpid(bench.leader, &status, 0) != bench.leader ||
	    ptrace(PTRACE_SETOPTIONS, bench.leader, 0,
		   PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC) ||
	    ptrace(PTRACE_CONT, bench.leader, 0, 0))
		die("start");
	loop(&bench, &begin);
	print(&bench, now() - begin);
	kill(bench.leader, SIGKILL);
	block_cache_free(bench.cache);
	return bench.bad ? 1 : 0;
}
