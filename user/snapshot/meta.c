// SPDX-License-Identifier: GPL-2.0-only
#include "snapshot/meta_fields.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static void count_fini(struct meta_count *count)
{
	free(count->spec);
}

void meta_fini(struct meta *meta)
{
	struct meta_count *count;
	char **warning;

	free(meta->trigger.kind);
	free(meta->trigger.spec);
	free(meta->trigger.symbol);
	vec_for_each(count, &meta->counts)
		count_fini(count);
	vec_for_each(warning, &meta->warnings)
		free(*warning);
	vec_free(&meta->counts);
	vec_free(&meta->threads);
	vec_free(&meta->budget_events);
	vec_free(&meta->warnings);
	free(meta->balance);
	free(meta->source);
	free(meta->soft_step);
	free(meta->evaluator);
	free(meta->host);
	free(meta->kernel);
	free(meta->cpu);
	free(meta->command);
	free(meta->unit);
	memset(meta, 0, sizeof(*meta));
}

/* One table serves the writer and the reader, so that what is written is read back. */
#define META(key, type, member)                                 \
	{                                                       \
		key, META_##type, offsetof(struct meta, member) \
	}
#define MEMBER(key, type, of, member)                         \
	{                                                     \
		key, META_##type, offsetof(struct of, member) \
	}

static const struct meta_field top_fields[] = {
	META("sequence", U64, sequence),
	META("wall_time_ns", U64, wall_time_ns),
	META("dropped_records", U64, dropped_records),
};
static const struct meta_field trigger_fields[] = {
	META("kind", STRING, trigger.kind),
	META("spec", STRING, trigger.spec),
	META("symbol", STRING, trigger.symbol),
	META("pid", PID, trigger.pid),
	META("tid", PID, trigger.tid),
	META("ns_pid", PID, trigger.ns_pid),
	META("ns_tid", PID, trigger.ns_tid),
	META("comm", COMM, trigger.comm),
	META("ip", HEX, trigger.ip),
	META("args", HEX6, trigger.args),
	META("time_ns", U64, trigger.time_ns),
	META("hit", U64, trigger.hit),
};
static const struct meta_field budget_fields[] = {
	META("requested_bytes", U64, budget_requested),
	META("bytes", U64, budget_bytes),
	META("used_bytes", U64, budget_used),
	META("peak_bytes", U64, budget_peak),
	META("balance", STRING, balance),
};
static const struct meta_field source_fields[] = {
	META("name", STRING, source),
	META("soft_step", STRING, soft_step),
	META("evaluator", STRING, evaluator),
	META("instructions", U64, instructions),
	META("stops", U64, stops),
	META("fallback_steps", U64, fallback_steps),
	META("disagreements", U64, disagreements),
	META("verified", U64, verified),
	META("slow_down", DOUBLE, slow_down),
};
static const struct meta_field host_fields[] = {
	META("name", STRING, host),
	META("kernel", STRING, kernel),
	META("cpu", STRING, cpu),
};
static const struct meta_field target_fields[] = {
	META("command", STRING, command),
	META("exited", BOOL, target_exited),
	META("wait_status", INT, target_status),
};
static const struct meta_field clock_fields[] = {
	META("unit", STRING, unit),
	META("tsc_mult", U32, clock.mult),
	META("tsc_shift", U16, clock.shift),
	META("tsc_zero_ns", HEX, clock.zero),
	META("max_error_ns", U64, clock.max_error_ns),
};
static const struct meta_field thread_count_fields[] = {
	META("births", U64, thread_births),
	META("exits", U64, thread_exits),
	META("untraced", U64, untraced_threads),
};

const struct meta_section meta_sections[META_SECTIONS] = {
	{ NULL, top_fields, ARRAY_SIZE(top_fields) },
	{ "trigger", trigger_fields, ARRAY_SIZE(trigger_fields) },
	{ "budget", budget_fields, ARRAY_SIZE(budget_fields) },
	{ "source", source_fields, ARRAY_SIZE(source_fields) },
	{ "host", host_fields, ARRAY_SIZE(host_fields) },
	{ "target", target_fields, ARRAY_SIZE(target_fields) },
	{ "clock", clock_fields, ARRAY_SIZE(clock_fields) },
	{ "thread_counts", thread_count_fields, ARRAY_SIZE(thread_count_fields) },
};

static const struct meta_field count_fields[] = {
	MEMBER("spec", STRING, meta_count, spec),
	MEMBER("hits", U64, meta_count, hits),
	MEMBER("fires", U64, meta_count, fires),
	MEMBER("drops", U64, meta_count, drops),
	MEMBER("attachments", U32, meta_count, attachments),
};
static const struct meta_field thread_fields[] = {
	MEMBER("pid", PID, meta_thread, pid),
	MEMBER("tid", PID, meta_thread, tid),
	MEMBER("ns_pid", PID, meta_thread, ns_pid),
	MEMBER("ns_tid", PID, meta_thread, ns_tid),
	MEMBER("comm", COMM, meta_thread, comm),
	MEMBER("fired", BOOL, meta_thread, fired),
	MEMBER("exited", BOOL, meta_thread, exited),
	MEMBER("untraced", BOOL, meta_thread, untraced),
	MEMBER("ring_bytes", U64, meta_thread, ring),
	MEMBER("tail_bytes", U64, meta_thread, tail),
	MEMBER("trace_bytes", U64, meta_thread, bytes),
	MEMBER("wrapped", BOOL, meta_thread, wrapped),
	MEMBER("lookback_ns", U64, meta_thread, lookback_ns),
	MEMBER("instructions", U64, meta_thread, instructions),
	MEMBER("branches", U64, meta_thread, branches),
	MEMBER("stops", U64, meta_thread, stops),
	MEMBER("lost_insns", U64, meta_thread, lost_insns),
	MEMBER("extra_insns", U64, meta_thread, extra_insns),
	MEMBER("cut_error_ns", U64, meta_thread, cut_error_ns),
	MEMBER("untraced_ns", U64, meta_thread, untraced_ns),
};
static const struct meta_field budget_event_fields[] = {
	MEMBER("time_ns", U64, meta_budget_event, time_ns),
	MEMBER("tid", PID, meta_budget_event, tid),
	MEMBER("from_bytes", U64, meta_budget_event, from),
	MEMBER("to_bytes", U64, meta_budget_event, to),
	MEMBER("tail_bytes", U64, meta_budget_event, tail),
	MEMBER("gap_ns", U64, meta_budget_event, gap_ns),
};

const struct meta_section meta_count_section = { "counts", count_fields, ARRAY_SIZE(count_fields) };
const struct meta_section meta_thread_section = { "threads", thread_fields,
						  ARRAY_SIZE(thread_fields) };
const struct meta_section meta_budget_event_section = { "budget_events", budget_event_fields,
							ARRAY_SIZE(budget_event_fields) };
