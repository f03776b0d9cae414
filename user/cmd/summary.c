// SPDX-License-Identifier: GPL-2.0-only
#include "cmd/summary.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/duration.h"
#include "base/mem.h"
#include "base/size.h"

#define MAX_ROWS 16
#define MAX_CHAIN 8
#define MAX_NAME 60

/* Three digits and a unit; whole numbers without a fraction. */
static const char *scaled(uint64_t n, double step, const char *units, char *buf, size_t buf_size)
{
	double value = (double)n;
	int digits = 0, unit = 0;

	while (units[unit + 1] && value >= step - 0.5) {
		value /= step;
		unit++;
	}
	if (value != (double)(uint64_t)value)
		digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
	snprintf(buf, buf_size, "%.*f%.*s", digits, value, units[unit] != ' ', units + unit);
	return buf;
}

static const char *count_format(uint64_t n, char *buf, size_t buf_size)
{
	return scaled(n, 1000, " kMGTPE", buf, buf_size);
}

static const char *bytes_format(uint64_t n, char *buf, size_t buf_size)
{
	return scaled(n, 1024, "BKMGTPE", buf, buf_size);
}

static bool is_kind(const struct meta_trigger *trigger, const char *kind)
{
	return trigger->kind && !strcmp(trigger->kind, kind);
}

static void print_cause(FILE *out, const struct meta *meta)
{
	const struct meta_trigger *trigger = &meta->trigger;

	fprintf(out, "snapshot %" PRIu64 ": ", meta->sequence);
	if (is_kind(trigger, "interrupt") || is_kind(trigger, "exit") || !trigger->spec) {
		fprintf(out, "%s%s\n",
			is_kind(trigger, "interrupt") ? "at Ctrl-C" : "at the target's end",
			meta->counts.len ? "; no trigger had fired" : "");
		return;
	}
	fprintf(out, "%s fired in %s (tid %d)", trigger->spec, trigger->comm, (int)trigger->tid);
	if (trigger->hit > 1)
		fprintf(out, " at hit %" PRIu64, trigger->hit);
	fprintf(out, "\n  at %s(0x%" PRIx64 ", 0x%" PRIx64 ", 0x%" PRIx64 ", ...)\n",
		trigger->symbol ? trigger->symbol : "?", trigger->args[0], trigger->args[1],
		trigger->args[2]);
}

/* The firing thread first, then those with the most to tell. */
static int compare_rows(const void *a, const void *b)
{
	const struct meta_thread *x = *(const struct meta_thread *const *)a;
	const struct meta_thread *y = *(const struct meta_thread *const *)b;

	if (x->fired != y->fired)
		return x->fired ? -1 : 1;
	if (x->untraced != y->untraced)
		return x->untraced ? 1 : -1;
	if (x->instructions != y->instructions)
		return x->instructions > y->instructions ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static void print_row(FILE *out, const struct meta_thread *thread, const char *unit)
{
	char ring[32], bytes[32], lookback[32], insns[32];

	if (thread->untraced && !thread->bytes) {
		fprintf(out, "  %c %-15s %8d %7s   not traced: more threads than rings\n", ' ',
			thread->comm, (int)thread->tid, "-");
		return;
	}
	if (unit && !strcmp(unit, "steps"))
		snprintf(lookback, sizeof(lookback), "%" PRIu64, thread->lookback_ns);
	else
		duration_format(thread->lookback_ns, lookback, sizeof(lookback));
	fprintf(out, "  %c %-15s %8d %7s %7s %9s %12s%s%s\n", thread->fired ? '*' : ' ',
		thread->comm, (int)thread->tid,
		thread->ring ? size_format(thread->ring, ring, sizeof(ring)) : "-",
		bytes_format(thread->bytes, bytes, sizeof(bytes)), lookback,
		count_format(thread->instructions, insns, sizeof(insns)),
		thread->fired  ? "  fired" :
		thread->exited ? "  exited" :
				 "",
		thread->wrapped ? "  (older overwritten)" : "");
}

static void print_threads(FILE *out, const struct summary *summary)
{
	const struct meta *meta = summary->meta;
	scoped_free const struct meta_thread **rows =
		calloc(meta->threads.len + 1, sizeof(const struct meta_thread *));
	const struct meta_thread *thread;
	size_t n = 0, shown, others = 0, untraced = 0;

	if (!rows || !meta->threads.len)
		return;
	vec_for_each(thread, &meta->threads) {
		if (!summary->multi_thread && thread->untraced && !thread->bytes)
			others++; /* nobody asked for them */
		else
			rows[n++] = thread;
	}
	shown = n > MAX_ROWS ? MAX_ROWS - 1 : n;
	qsort(rows, n, sizeof(const struct meta_thread *), compare_rows);
	fprintf(out, "    %-15s %8s %7s %7s %9s %12s\n", "thread", "tid", "ring", "kept",
		"look-back", "instructions");
	for (size_t i = 0; i < shown; i++)
		print_row(out, rows[i], meta->unit);
	for (size_t i = shown; i < n; i++)
		untraced += rows[i]->untraced;
	if (shown < n)
		fprintf(out,
			"    and %zu more threads, %zu of them not traced; all are in "
			"snapshot.json\n",
			n - shown, untraced);
	if (others)
		fprintf(out, "    %zu other thread%s not recorded; --multi-thread records all\n",
			others, others == 1 ? " was" : "s were");
}

static void print_counts(FILE *out, const struct meta *meta)
{
	const struct meta_count *count;
	char used[32], budget[32];

	vec_for_each(count, &meta->counts) {
		if (!strcmp(count->spec, "manual") || !strcmp(count->spec, "exit"))
			continue;
		fprintf(out, "  trigger %s: %" PRIu64 " hit%s, %" PRIu64 " fire%s", count->spec,
			count->hits, count->hits == 1 ? "" : "s", count->fires,
			count->fires == 1 ? "" : "s");
		if (count->drops)
			fprintf(out, ", %" PRIu64 " more after it was disarmed", count->drops);
		fputc('\n', out);
	}
	if (meta->budget_bytes)
		fprintf(out, "  buffer %s, %s of it in rings, shared by %s\n",
			size_format(meta->budget_bytes, budget, sizeof(budget)),
			bytes_format(meta->budget_used, used, sizeof(used)),
			meta->balance ? meta->balance : "?");
}

/* 7902 -> 7900: it is an estimate. */
static double two_digits(double value)
{
	const double unit = value < 1 ? 1 : pow(10, floor(log10(value)) - 1);

	return round(value / unit) * unit;
}

static void print_cost(FILE *out, const struct meta *meta)
{
	char insns[32], stops[32];

	if (meta->source && strcmp(meta->source, "soft"))
		return;
	fprintf(out, "  software tracer (%s): %s instructions in %s stops",
		meta->soft_step ? meta->soft_step : "?",
		count_format(meta->instructions, insns, sizeof(insns)),
		count_format(meta->stops, stops, sizeof(stops)));
	if (meta->slow_down >= 1)
		fprintf(out, "; the target ran about %.0f times slower",
			two_digits(meta->slow_down));
	fputc('\n', out);
}

static void print_decode(FILE *out, const struct summary *summary)
{
	const struct timeline_totals *totals = summary->totals;
	char slices[32];

	if (!totals || !totals->threads)
		return;
	fprintf(out, "  decoded %s calls in %" PRIu64 " thread%s",
		count_format(totals->slices, slices, sizeof(slices)), totals->threads,
		totals->threads == 1 ? "" : "s");
	if (totals->slices && totals->inferred)
		fprintf(out, ", %.3g%% with a begin or end that was not seen",
			100 * (double)totals->inferred / (double)totals->slices);
	if (totals->error_gaps)
		fprintf(out, "; %" PRIu64 " gaps by errors: 'ptbpf decode' tells which",
			totals->error_gaps);
	fputc('\n', out);
}

void summary_print(FILE *out, const struct summary *summary)
{
	const struct meta *meta = summary->meta;

	print_cause(out, meta);
	if (summary->chain)
		fprintf(out, "  in %s\n", summary->chain);
	print_threads(out, summary);
	print_counts(out, meta);
	print_decode(out, summary);
	print_cost(out, meta);
	if (summary->trace)
		fprintf(out,
			"  to see it: drop this file on https://ui.perfetto.dev (it is not "
			"uploaded)\n    %s/%s\n",
			summary->path, summary->trace);
	fprintf(out, "  as text: ptbpf decode --format text %s\n", summary->path);
}

/* Indices of the slices that were open at the thread's end, outermost first: the last @max. */
static size_t open_slices(const struct thread_timeline *thread, uint32_t *open, size_t max)
{
	uint64_t last_ns = thread->last_ns;
	uint32_t parent = UINT32_MAX;
	const struct slice *slice;
	size_t n = 0;

	vec_for_each(slice, &thread->slices)
		last_ns = slice->end_ns > last_ns ? slice->end_ns : last_ns;
	for (uint32_t i = 0; i < thread->slices.len; i++) {
		slice = &thread->slices.data[i];
		if (slice->end_edge != EDGE_INFERRED || slice->end_ns < last_ns ||
		    slice->parent != parent)
			continue;
		open[n++ % max] = i;
		parent = i;
	}
	return n;
}

char *summary_chain(const struct timeline *timeline)
{
	const struct thread_timeline *thread, *fired = NULL;
	uint32_t open[MAX_CHAIN];
	char *text = NULL;
	size_t size, n;
	FILE *out;

	vec_for_each(thread, &timeline->threads) {
		if (thread->fired)
			fired = thread;
	}
	n = fired ? open_slices(fired, open, MAX_CHAIN) : 0;
	out = n ? open_memstream(&text, &size) : NULL;
	if (!out)
		return NULL;
	if (n > MAX_CHAIN)
		fputs("... > ", out);
	for (size_t i = n > MAX_CHAIN ? n - MAX_CHAIN : 0; i < n; i++) {
		const struct slice *slice = &fired->slices.data[open[i % MAX_CHAIN]];
		const char *name = timeline->names.data[slice->name].function;

		fprintf(out, "%.*s%s%s", MAX_NAME, name, strlen(name) > MAX_NAME ? "..." : "",
			i + 1 < n ? " > " : "");
	}
	if (!fclose(out))
		return text;
	free(text);
	return NULL;
}

const char *summary_status(int wait_status, char *buf, size_t buf_size)
{
	if (WIFEXITED(wait_status))
		snprintf(buf, buf_size, "exited with status %d", WEXITSTATUS(wait_status));
	else if (WIFSIGNALED(wait_status))
		snprintf(buf, buf_size, "was killed by SIG%s%s",
			 sigabbrev_np(WTERMSIG(wait_status)) ?: "?",
			 WCOREDUMP(wait_status) ? " (core dumped)" : "");
	else
		snprintf(buf, buf_size, "ended");
	return buf;
}
