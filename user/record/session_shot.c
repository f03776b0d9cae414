// SPDX-License-Identifier: GPL-2.0-only
#include "record/session_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "record/host.h"

static int copy_tails(struct recording *recording, const struct session_thread *thread)
{
	for (size_t i = 0; i < thread->tails.len; i++) {
		struct recording_chunk chunk = thread->tails.data[i];
		int err;

		chunk.data = malloc(chunk.size);
		if (!chunk.data)
			return -ENOMEM;
		memcpy(chunk.data, thread->tails.data[i].data, chunk.size);
		err = recording_add_chunk(recording, &chunk);
		if (err) {
			free(chunk.data);
			return err;
		}
	}
	return 0;
}

/* What is on the disk may not fit into memory: it is lent, not copied. */
static int read_spool(struct recording *recording, const struct aux_ring *ring,
		      struct recording_chunk *chunk)
{
	const uint64_t spooled = ring->header->spooled;
	int err = recording_map_file(recording, ring->spool_fd, &chunk->data, &chunk->size);

	if (chunk->size > spooled)
		chunk->size = spooled;
	chunk->borrowed = true;
	return err;
}

static int read_ring(struct recording *recording, const struct session_thread *thread,
		     struct recording_chunk *chunk, bool *wrapped)
{
	*wrapped = false;
	if (thread->ring.spool_fd >= 0)
		return read_spool(recording, &thread->ring, chunk);
	chunk->data = malloc(thread->ring.size);
	if (!chunk->data)
		return -ENOMEM;
	chunk->size = aux_ring_read(&thread->ring, thread->ring.size, chunk->data, wrapped);
	return 0;
}

static void drop_chunk(const struct recording_chunk *chunk)
{
	if (!chunk->borrowed)
		free(chunk->data);
}

static int copy_ring(struct recording *recording, const struct session_thread *thread,
		     uint64_t now_ns, bool *wrapped)
{
	struct recording_chunk chunk = { .pid = thread->pid,
					 .tid = thread->tid,
					 .join = thread->join,
					 .gap_ns = thread->gap_ns,
					 .start_ns = thread->stretch_ns,
					 .end_ns = thread->exited ? thread->exit_ns : now_ns };
	int err = read_ring(recording, thread, &chunk, wrapped);

	if (err)
		return err;
	if (*wrapped)
		chunk.join = RECORDING_JOIN_WRAPPED;
	if (!chunk.size) {
		drop_chunk(&chunk);
		return 0;
	}
	return session_add_stretches(thread, &chunk, &recording->chunks);
}

/*
 * TSC of the oldest PSB+, where decoding can begin (SDM vol. 3, 33.4.2: PSB is 02 82 eight times,
 * TSC is 19 and seven bytes; our PSB+ has the TSC first). 0: none.
 */
static uint64_t oldest_tsc(const struct recording_chunk *chunk)
{
	static const uint8_t psb[16] = { 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
					 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82 };
	const uint8_t *at = memmem(chunk->data, chunk->size, psb, sizeof(psb));
	uint64_t tsc = 0;

	if (!at || (size_t)(chunk->data + chunk->size - at) < sizeof(psb) + 8 || at[16] != 0x19)
		return 0;
	memcpy(&tsc, at + 17, 7);
	return tsc;
}

static int thread_meta(struct session *session, struct session_thread *thread,
		       const struct ptbpf_fire *fire, struct shot *shot, uint64_t now_ns)
{
	struct meta_thread meta = { .pid = thread->pid,
				    .tid = thread->tid,
				    .ns_pid = thread->ns_pid ? thread->ns_pid : thread->pid,
				    .ns_tid = thread->ns_tid ? thread->ns_tid : thread->tid,
				    .fired = fire && (pid_t)fire->tid == thread->tid,
				    .exited = thread->exited,
				    .untraced = !thread->exited && !thread->has_ring,
				    .instructions = thread->instructions,
				    .branches = thread->branches,
				    .stops = thread->stops,
				    .untraced_ns = thread->untraced_ns };
	const size_t first_chunk = shot->recording.chunks.len;
	struct source_cut cut = { 0 };
	uint64_t oldest = 0;
	int err = copy_tails(&shot->recording, thread);

	memcpy(meta.comm, thread->comm, sizeof(meta.comm));
	if (thread->taken_ns && !thread->exited)
		meta.untraced_ns += now_ns - thread->taken_ns;
	if (!err && thread->has_ring) {
		err = copy_ring(&shot->recording, thread, now_ns, &meta.wrapped);
		meta.ring = thread->ring.spool_fd >= 0 ? 0 : thread->ring.size;
		meta.instructions += thread->ring.header->instructions;
		meta.branches += thread->ring.header->branches;
		meta.stops += thread->ring.header->stops;
		if (!session->source->ops->cut(session->source, thread->tid, &cut)) {
			meta.lost_insns = cut.lost_insns;
			meta.extra_insns = cut.extra_insns;
			meta.cut_error_ns = cut.error_ns;
		}
	}
	for (size_t i = 0; i < thread->tails.len; i++)
		meta.tail += thread->tails.data[i].size;
	for (size_t i = first_chunk; i < shot->recording.chunks.len; i++) {
		meta.bytes += shot->recording.chunks.data[i].size;
		if (!oldest)
			oldest = oldest_tsc(&shot->recording.chunks.data[i]);
	}
	if (oldest && !session->options->step_clock) {
		const uint64_t oldest_ns = clock_tsc_to_ns(&shot->recording.clock, oldest);

		meta.lookback_ns = now_ns > oldest_ns ? now_ns - oldest_ns : 0;
	}
	return err ? err : vec_push(&shot->meta.threads, meta);
}

static int copy_events(struct session *session, struct recording *recording)
{
	struct recording_event *event;

	vec_for_each(event, &session->events) {
		struct recording_event copy = *event;
		int err;

		if (copy.kind == RECORDING_MAP) {
			copy.map.path = strdup(event->map.path);
			if (!copy.map.path)
				return -ENOMEM;
		}
		err = recording_add_event(recording, &copy);
		if (err) {
			if (copy.kind == RECORDING_MAP)
				free(copy.map.path);
			return err;
		}
	}
	return 0;
}

static int copy_images(struct session *session, struct shot *shot)
{
	for (size_t p = 0; p < session->processes.len; p++) {
		struct session_process *process = &session->processes.data[p];

		if (!process->exited)
			session_process_save_images(process);
		for (size_t i = 0; i < process->images.len; i++) {
			struct shot_image copy = process->images.data[i];

			copy.name = strdup(copy.name);
			copy.bytes = malloc(copy.len);
			if (!copy.name || !copy.bytes || vec_push(&shot->images, copy)) {
				free(copy.name);
				free(copy.bytes);
				return -ENOMEM;
			}
			memcpy(copy.bytes, process->images.data[i].bytes, copy.len);
		}
	}
	return 0;
}

/* Of a function's several names, the one that the trigger asked for. */
struct alias {
	uint64_t start;
	const struct symbol *symbol;
};

static int take_alias(void *ctx, const struct symbol *symbol)
{
	struct alias *const alias = ctx;

	if (symbol->start != alias->start)
		return 0;
	alias->symbol = symbol;
	return 1;
}

static char *name_of(const struct object *object, uint64_t vaddr, const struct trigger *trigger)
{
	struct alias alias = { .symbol = object_symbol_at(object, vaddr) };
	char *text;

	if (!alias.symbol)
		return NULL;
	alias.start = alias.symbol->start;
	if (trigger && trigger->kind == TRIGGER_SYM)
		object_match(object, trigger->function, take_alias, &alias);
	return asprintf(&text, vaddr == alias.start ? "%s" : "%s+0x%llx", alias.symbol->demangled,
			(unsigned long long)(vaddr - alias.start)) < 0 ?
		       NULL :
		       text;
}

/* "FUNC+0xOFF" of the place that fired, as its trigger names it; NULL unknown. */
static char *symbol_text(struct session *session, const struct ptbpf_fire *fire)
{
	const struct session_options *options = session->options;
	struct session_process *process = session_process_find(session, (pid_t)fire->pid);
	struct session_mapping *mapping;
	const struct session_site *site;
	uint64_t ip = fire->ip, vaddr;

	if (!process)
		return NULL;
	vec_for_each(site, &process->sites) {
		if (site->ip == ip) {
			ip = site->entry; /* the probe may stand behind an endbr64 */
			break;
		}
	}
	vec_for_each(mapping, &process->mappings) {
		if (ip < mapping->entry.start || ip >= mapping->entry.end || !mapping->object)
			continue;
		if (object_offset_to_vaddr(mapping->object,
					   ip - mapping->entry.start + mapping->entry.pgoff,
					   &vaddr))
			return NULL;
		return name_of(mapping->object, vaddr,
			       fire->trigger < options->n_triggers ?
				       &options->triggers[fire->trigger] :
				       NULL);
	}
	return NULL;
}

static void trigger_meta(struct session *session, const struct ptbpf_fire *fire, const char *kind,
			 uint64_t now_ns, struct meta_trigger *meta)
{
	meta->time_ns = now_ns;
	if (!fire) {
		meta->kind = strdup(kind);
		return;
	}
	meta->pid = (pid_t)fire->pid;
	meta->tid = (pid_t)fire->tid;
	meta->ns_pid = (pid_t)fire->ns_pid;
	meta->ns_tid = (pid_t)fire->ns_tid;
	memcpy(meta->comm, fire->comm, sizeof(meta->comm) - 1);
	meta->ip = fire->ip;
	memcpy(meta->args, fire->args, sizeof(meta->args));
	meta->hit = fire->hit;
	meta->symbol = symbol_text(session, fire);
	if (fire->trigger < session->options->n_triggers) {
		const struct trigger *trigger = &session->options->triggers[fire->trigger];

		meta->kind = strdup(trigger_kind_name(trigger->kind));
		meta->spec = strdup(trigger->spec);
	}
}

static int counts_meta(struct session *session, struct meta *meta)
{
	for (size_t i = 0; i < session->options->n_triggers; i++) {
		const struct ptbpf_trigger_stats *stats = &session->fires->stats[i];
		const struct meta_count count = {
			.spec = strdup(session->options->triggers[i].spec),
			.hits = __atomic_load_n(&stats->hits, __ATOMIC_RELAXED),
			.fires = __atomic_load_n(&stats->fires, __ATOMIC_RELAXED),
			.drops = __atomic_load_n(&stats->drops, __ATOMIC_RELAXED),
			.attachments = session->attachments.data[i]
		};

		if (!count.spec || vec_push(&meta->counts, count))
			return -ENOMEM;
	}
	return 0;
}

static char *join_command(char *const *argv)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	for (size_t i = 0; argv[i]; i++)
		fprintf(out, "%s%s", i ? " " : "", argv[i]);
	return fclose(out) ? NULL : text;
}

static int session_meta(struct session *session, struct meta *meta)
{
	static const char *const steps[] = { [SOFT_STEP_BLOCK] = "block",
					     [SOFT_STEP_INSN] = "insn",
					     [SOFT_STEP_VERIFY] = "verify" };
	const struct session_options *options = session->options;
	struct evaluator_drops drops = { 0 };
	struct timespec wall;
	char **warning;

	clock_gettime(CLOCK_REALTIME, &wall);
	meta->version = META_VERSION;
	meta->sequence = session->sequence;
	meta->wall_time_ns = (uint64_t)wall.tv_sec * 1000000000ull + (uint64_t)wall.tv_nsec;
	meta->budget_requested = options->buffer_requested;
	meta->budget_bytes = options->buffer;
	meta->budget_used = budget_used(session->budget);
	meta->budget_peak = session->budget_peak;
	meta->balance = strdup(options->balance == BALANCE_EQUAL ? "equal" : "activity");
	meta->source = strdup(session->source->ops->name);
	meta->soft_step = strdup(steps[options->soft_step]);
	meta->evaluator = strdup(session->evaluator ? "bpf" : "soft");
	meta->command = options->argv ? join_command(options->argv) : NULL;
	meta->unit = strdup(options->step_clock ? "steps" : "ns");
	meta->target_exited = session->ended;
	meta->target_status = session->command_status;
	meta->thread_births = session->births;
	meta->thread_exits = session->exits;
	if (session->evaluator)
		evaluator_read_drops(session->evaluator, &drops);
	meta->dropped_records = drops.records + drops.threads;
	meta->instructions = session->stats.instructions;
	meta->stops = session->stats.stops;
	meta->fallback_steps = session->stats.fallback_steps;
	meta->disagreements = session->stats.disagreements;
	meta->verified = session->stats.verified;
	meta->slow_down = session->stats.slow_down;
	vec_for_each(warning, &session->warnings) {
		char *copy = strdup(*warning);

		if (!copy || vec_push(&meta->warnings, copy))
			return -ENOMEM;
	}
	for (size_t i = 0; i < session->budget_events.len; i++) {
		if (vec_push(&meta->budget_events, session->budget_events.data[i]))
			return -ENOMEM;
	}
	return host_describe(&meta->host, &meta->kernel, &meta->cpu);
}

static int fill(struct session *session, struct shot *shot, const struct ptbpf_fire *fire,
		const char *kind, uint64_t now_ns)
{
	struct session_thread *thread;
	int err;

	err = clock_fit(session->clock_pairs.data, session->clock_pairs.len,
			&shot->recording.clock);
	if (err)
		return err;
	if (session->options->step_clock)
		shot->recording.clock = (struct clock_conv){ .mult = 1 };
	shot->meta.clock = shot->recording.clock;
	host_cpu(&shot->recording.cpu);
	shot->recording.pt = (struct recording_pt){ .config = 0x2401, /* pt, tsc, branch */
						    .snapshot_mode = true };
	trigger_meta(session, fire, kind, now_ns, &shot->meta.trigger);
	vec_for_each(thread, &session->threads) {
		err = thread_meta(session, thread, fire, shot, now_ns);
		if (err)
			return err;
		if (!thread->exited && !thread->has_ring)
			shot->meta.untraced_threads++;
	}
	err = copy_events(session, &shot->recording);
	if (!err)
		err = copy_images(session, shot);
	if (!err)
		err = counts_meta(session, &shot->meta);
	return err ? err : session_meta(session, &shot->meta);
}

int session_shoot(struct session *session, const struct ptbpf_fire *fire, const char *kind,
		  uint64_t now_ns)
{
	struct shot *shot = calloc(1, sizeof(*shot));
	int err;

	if (!shot)
		return log_errno(-ENOMEM, "take the snapshot");
	session->sequence++;
	vec_push(&session->clock_pairs, clock_read_pair());
	session->source->ops->stats(session->source, &session->stats);
	err = fill(session, shot, fire, kind, now_ns);
	if (err) {
		shot_free(shot);
		return log_errno(err, "take the snapshot");
	}
	session->shot = shot;
	return 0;
}

void session_hand_over(struct session *session)
{
	if (session->shot)
		finisher_push(session->finisher, TAKE_PTR(session->shot));
}
