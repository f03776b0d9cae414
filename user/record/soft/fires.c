// SPDX-License-Identifier: GPL-2.0-only
/* Fires: BPF publishes them, or the stepper evaluates the triggers itself; both end the traces. */
#include "record/soft/stepper.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "record/comm.h"

#define PUBLISH_NS 5000000ull /* between claiming and publishing lie a few instructions */

/* The next fire that is not handled; NULL: none. */
static const struct ptbpf_fire *next_fire(struct stepper *stepper)
{
	struct ptbpf_fire_page *page = stepper->config->fires;
	const uint64_t limit = clock_now_ns() + PUBLISH_NS;
	uint64_t claimed;
	size_t slot;

	if (!page)
		return NULL;
	claimed = __atomic_load_n(&page->claimed, __ATOMIC_ACQUIRE);
	if (claimed <= stepper->fires_seen)
		return NULL;
	if (claimed - stepper->fires_seen > PTBPF_MAX_FIRES)
		stepper->fires_seen = claimed - PTBPF_MAX_FIRES;
	slot = stepper->fires_seen % PTBPF_MAX_FIRES;
	while (__atomic_load_n(&page->published[slot], __ATOMIC_ACQUIRE) <= stepper->fires_seen) {
		if (clock_now_ns() > limit)
			return NULL;
	}
	return &page->fires[slot];
}

/* The TSC at the fire, so that no trace ends later than what ended it. 0: not known. */
static uint64_t tsc_of(const struct stepper *stepper, const struct ptbpf_fire *fire)
{
	const struct clock_pair now = clock_read_pair();
	const uint64_t span_ns = now.ns - stepper->clock_start.ns;
	double ticks_per_ns;

	if (!span_ns || fire->time_ns > now.ns)
		return 0;
	ticks_per_ns = (double)(now.tsc - stepper->clock_start.tsc) / (double)span_ns;
	return now.tsc - (uint64_t)((double)(now.ns - fire->time_ns) * ticks_per_ns);
}

bool fires_hit(struct stepper *stepper, struct soft_thread *thread, uint64_t *ip)
{
	const struct ptbpf_fire_page *page = stepper->config->fires;
	const struct ptbpf_fire *fire;

	if (!page || stepper->frozen ||
	    __atomic_load_n(&page->claimed, __ATOMIC_ACQUIRE) <= stepper->fires_seen)
		return false;
	fire = next_fire(stepper);
	if (!fire || fire->tid != (uint32_t)thread->tid)
		return false;
	*ip = fire->ip;
	thread->encoder.tsc_limit = tsc_of(stepper, fire);
	return true;
}

static void freeze_thread(struct stepper *stepper, struct soft_thread *thread, uint64_t tsc_limit)
{
	const bool in_flight = thread->state == THREAD_RUNNING && thread->encoder.on;

	memset(&thread->cut, 0, sizeof(thread->cut));
	if (in_flight) {
		/* It is somewhere in the run that began at ip: that run is not recorded. */
		thread->drop = true;
		thread->cut.lost_insns = 1;
		thread->cut.error_ns = clock_now_ns() - stepper->resumed_ns;
	}
	thread->encoder.tsc_limit = tsc_limit;
	record_end_at(thread, thread->ip);
	thread->encoder.tsc_limit = 0;
	aux_ring_flush(&thread->ring);
	if (thread->insn_log)
		fflush(thread->insn_log);
}

static void freeze(struct stepper *stepper, uint64_t tsc_limit)
{
	for (size_t i = 0; i < stepper->stepped.len; i++)
		freeze_thread(stepper, stepper->stepped.data[i], tsc_limit);
	stepper->frozen = true;
}

void fires_freeze(struct stepper *stepper)
{
	freeze(stepper, 0);
}

void fires_resume(struct stepper *stepper)
{
	stepper->frozen = false;
	stepper->hold_all = false;
}

static void report(struct stepper *stepper, const struct ptbpf_fire *fire,
		   const struct soft_thread *thread)
{
	struct source_event event = {
		.kind = SOURCE_FIRE,
		.pid = (pid_t)fire->pid,
		.tid = (pid_t)fire->tid,
		.time_ns = fire->time_ns,
		.fire = fire->sequence,
	};

	memcpy(event.comm, fire->comm, sizeof(event.comm));
	if (thread)
		event.cut = thread->cut;
	stepper->fires_seen++;
	stepper_send(stepper, &event);
}

void fires_check(struct stepper *stepper)
{
	const struct ptbpf_fire *fire;
	struct soft_thread *thread;

	if (stepper->frozen || stepper->detached)
		return;
	fire = next_fire(stepper);
	if (!fire)
		return;
	thread = thread_find(stepper, (pid_t)fire->tid);
	/* Its own next stop ends its trace at the right place. */
	if (thread && thread_is_traced(thread) && thread->state == THREAD_RUNNING &&
	    thread->encoder.on)
		return;
	freeze(stepper, tsc_of(stepper, fire));
	report(stepper, fire, thread);
}

static uint64_t argument(const struct user_regs_struct *regs, uint32_t i)
{
	const uint64_t args[6] = { regs->rdi, regs->rsi, regs->rdx, regs->rcx, regs->r8, regs->r9 };

	return args[i % 6];
}

/* The thread's ids in its own pid namespace: the last numbers of NSpid and NStgid. */
static void own_ids(const struct soft_thread *thread, uint32_t *pid, uint32_t *tid)
{
	char path[64], line[256];
	FILE *file;

	*pid = (uint32_t)thread->pid;
	*tid = (uint32_t)thread->tid;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", thread->pid, thread->tid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		const char *last = strrchr(line, '\t');

		if (last && !strncmp(line, "NStgid:", 7))
			*pid = (uint32_t)strtoul(last, NULL, 10);
		else if (last && !strncmp(line, "NSpid:", 6))
			*tid = (uint32_t)strtoul(last, NULL, 10);
	}
	if (file)
		fclose(file);
}

static uint64_t next_random(struct stepper *stepper)
{
	stepper->random ^= stepper->random << 13;
	stepper->random ^= stepper->random >> 7;
	stepper->random ^= stepper->random << 17;
	return stepper->random;
}

static bool passes(struct stepper *stepper, const struct soft_thread *thread, uint32_t index,
		   uint64_t now)
{
	const struct ptbpf_trigger *trigger = &stepper->config->triggers[index];
	struct trigger_hit hit = {
		.tid = (uint32_t)thread->tid,
		.time_ns = now,
		.random = (uint32_t)next_random(stepper),
	};
	char comm[16];

	for (uint32_t i = 0; i < 6; i++)
		hit.args[i] = argument(&thread->regs, i);
	if (trigger->flags & PTBPF_TRIGGER_HAS_COMM) {
		comm_read(thread->pid, thread->tid, comm);
		hit.comm = comm;
	}
	return trigger_match(&stepper->matches[index], trigger, &hit);
}

static const struct ptbpf_fire *publish(struct stepper *stepper, const struct soft_thread *thread,
					const struct source_probe *probe, uint64_t now)
{
	struct ptbpf_fire_page *page = stepper->config->fires;
	struct ptbpf_trigger_stats *stats = &page->stats[probe->trigger];
	const uint64_t n = page->claimed;
	struct ptbpf_fire *fire = &page->fires[n % PTBPF_MAX_FIRES];

	if (page->single && n) {
		stats->drops++;
		return NULL;
	}
	page->claimed = n + 1;
	memset(fire, 0, sizeof(*fire));
	fire->time_ns = now;
	fire->ip = probe->ip;
	for (uint32_t i = 0; i < 6; i++)
		fire->args[i] = argument(&thread->regs, i);
	fire->sp = thread->regs.rsp;
	fire->hit = stats->hits;
	fire->trigger = probe->trigger;
	fire->attachment = probe->attachment;
	fire->pid = (uint32_t)thread->pid;
	fire->tid = (uint32_t)thread->tid;
	own_ids(thread, &fire->ns_pid, &fire->ns_tid);
	comm_read(thread->pid, thread->tid, fire->comm);
	fire->sequence = n + 1;
	stats->fires++;
	__atomic_store_n(&page->published[n % PTBPF_MAX_FIRES], n + 1, __ATOMIC_RELEASE);
	return fire;
}

static bool evaluate(struct stepper *stepper, struct soft_thread *thread,
		     const struct source_probe *probe)
{
	struct ptbpf_fire_page *page = stepper->config->fires;
	const uint64_t now = clock_now_ns();
	const struct ptbpf_fire *fire;

	if (probe->trigger >= stepper->config->n_triggers || !page || thread_fetch_regs(thread))
		return false;
	page->stats[probe->trigger].hits++;
	if (!passes(stepper, thread, probe->trigger, now))
		return false;
	fire = publish(stepper, thread, probe, now);
	if (!fire)
		return false;
	record_end_at(thread, thread->ip);
	freeze(stepper, tsc_of(stepper, fire));
	report(stepper, fire, thread);
	return true;
}

/* Index of the first probe at or above @ip. */
static size_t first_probe(const struct soft_process *process, uint64_t ip)
{
	size_t low = 0, high = process->probes.len;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (process->probes.data[middle].ip < ip)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool fires_is_probe(const struct soft_thread *thread)
{
	const struct soft_process *process = thread->process;
	const size_t i = first_probe(process, thread->ip);

	return i < process->probes.len && process->probes.data[i].ip == thread->ip;
}

bool fires_evaluate(struct stepper *stepper, struct soft_thread *thread)
{
	const struct soft_process *process = thread->process;
	size_t i;

	if (thread->probed || !process->probes.len)
		return false;
	/* Goes on behind it when the session resumes: one hit is evaluated once. */
	thread->probed = true;
	i = first_probe(process, thread->ip);
	for (; i < process->probes.len && process->probes.data[i].ip == thread->ip; i++) {
		if (evaluate(stepper, thread, &process->probes.data[i]))
			return true;
	}
	return false;
}
