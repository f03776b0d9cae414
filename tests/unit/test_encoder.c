// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the encoder writes, read back with libipt's packet and query decoders.
 * links: record/soft/encoder record/aux_ring base/clock base/size
 */
#include "unit.h"

#include <intel-pt.h>

#include "record/soft/encoder.h"

#define RING (4u << 20)

struct bench {
	struct aux_ring ring;
	struct encoder encoder;
	uint64_t steps;
	uint8_t *bytes;
	size_t n;
	struct pt_config config;
};

static void bench_start(struct bench *bench, uint64_t ring_size)
{
	memset(bench, 0, sizeof(*bench));
	CHECK_EQ(aux_ring_new(ring_size, &bench->ring), 0);
	CHECK_EQ(encoder_init(&bench->encoder, &bench->steps), 0);
	encoder_attach(&bench->encoder, &bench->ring);
}

static void bench_finish(struct bench *bench)
{
	bool wrapped;

	encoder_detach(&bench->encoder);
	bench->bytes = malloc(bench->ring.size);
	bench->n = aux_ring_read(&bench->ring, UINT64_MAX, bench->bytes, &wrapped);
	pt_config_init(&bench->config);
	bench->config.begin = bench->bytes;
	bench->config.end = bench->bytes + bench->n;
}

static void bench_end(struct bench *bench)
{
	encoder_fini(&bench->encoder);
	aux_ring_free(&bench->ring);
	free(bench->bytes);
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Addresses near and far, so that every kind of IP compression occurs. */
static uint64_t random_ip(uint64_t *state, uint64_t near)
{
	const uint64_t r = next_random(state);

	switch (r % 6) {
	case 0:
		return 0x400000 + (r >> 40);
	case 1:
		return 0x7f0000000000 + (r >> 24);
	case 2:
		return 0xffffffff80000000 + (r >> 34);
	case 3:
		return near ^ ((r >> 20) & 0xffffffff);
	default:
		return near ^ ((r >> 20) & 0xffff);
	}
}

enum kind { COND, INDIRECT, CALL, RETURN, OFF_FAR, OFF_AT };

struct step {
	enum kind kind;
	bool taken;
	uint64_t to;    /* CALL: the address to return to */
	uint64_t after; /* where the walk is then */
};

#define STEPS 40000

/* A random walk; returns mostly go where the call came from. */
static size_t walk(struct encoder *encoder, uint64_t seed, struct step *steps)
{
	uint64_t stack[200], ip = 0x401000;
	size_t depth = 0;

	encoder_begin(encoder, ip, false);
	for (size_t i = 0; i < STEPS; i++) {
		const uint64_t r = next_random(&seed);
		struct step step = { .kind = (enum kind)(r % 4), .taken = r & 256 };

		if (r % 97 == 0)
			step.kind = r & 512 ? OFF_FAR : OFF_AT;
		step.to = random_ip(&seed, ip);
		switch (step.kind) {
		case COND:
			encoder_cond(encoder, step.taken, step.to);
			break;
		case INDIRECT:
			encoder_indirect(encoder, step.to);
			break;
		case CALL:
			if (depth == 200)
				depth = 0;
			stack[depth++] = ip + 5;
			encoder_call(encoder, ip + 5);
			break;
		case RETURN:
			if (depth && r & 0xf000)
				step.to = stack[--depth];
			encoder_return(encoder, step.to);
			break;
		case OFF_FAR:
			encoder_end_far(encoder);
			encoder_begin(encoder, step.to, false);
			break;
		case OFF_AT:
			encoder_end_at(encoder, ip);
			encoder_begin(encoder, step.to, false);
			break;
		}
		steps[i] = step;
		if (step.kind == CALL)
			steps[i].to = ip + 5;
		ip = steps[i].after = step.to;
	}
	encoder_end_at(encoder, ip);
	return STEPS;
}

/* Both ways of keeping the return stack: libipt leaves it at an uncompressed return, perf pops. */
struct stacks {
	uint64_t ipt[64], perf[1 << 16];
	size_t ipt_top, ipt_depth, perf_depth;
};

static void stacks_call(struct stacks *stacks, uint64_t to)
{
	stacks->ipt_top = (stacks->ipt_top + 1) % 64;
	stacks->ipt[stacks->ipt_top] = to;
	if (stacks->ipt_depth < 64)
		stacks->ipt_depth++;
	stacks->perf[stacks->perf_depth++] = to;
}

static void stacks_return(struct stacks *stacks, bool compressed, uint64_t to)
{
	const uint64_t popped = stacks->perf_depth ? stacks->perf[--stacks->perf_depth] : 0;

	if (!compressed)
		return;
	CHECK(stacks->ipt_depth > 0);
	CHECK_EQ(stacks->ipt[stacks->ipt_top], to);
	CHECK_EQ(popped, to);
	stacks->ipt_top = (stacks->ipt_top + 63) % 64;
	stacks->ipt_depth--;
}

/* The events that are due before the next branch, up to one of type @wanted (or all that are). */
static uint64_t take_event(struct pt_query_decoder *decoder, int *status, enum pt_event_type wanted)
{
	struct pt_event event;

	while (*status >= 0 && *status & pts_event_pending) {
		*status = pt_qry_event(decoder, &event, sizeof(event));
		CHECK(*status >= 0);
		if (event.type == wanted)
			return wanted == ptev_enabled        ? event.variant.enabled.ip :
			       wanted == ptev_async_disabled ? event.variant.async_disabled.at :
							       1;
		CHECK(event.type == ptev_exec_mode || event.type == ptev_tick);
	}
	return 0;
}

static void take_events(struct pt_query_decoder *decoder, int *status)
{
	take_event(decoder, status, (enum pt_event_type) - 1);
}

static void read_walk(struct bench *bench, const struct step *steps, size_t n)
{
	struct pt_query_decoder *decoder = pt_qry_alloc_decoder(&bench->config);
	struct stacks *stacks = calloc(1, sizeof(*stacks));
	uint64_t ip, to, at = 0x401000;
	size_t compressed = 0, plain = 0;
	int status = pt_qry_sync_forward(decoder, &ip);

	CHECK(status >= 0);
	CHECK_EQ(take_event(decoder, &status, ptev_enabled), 0x401000);
	for (size_t i = 0; i < n; i++) {
		const struct step *step = &steps[i];
		int taken = -1;

		if (step->kind == COND || step->kind == INDIRECT || step->kind == RETURN)
			take_events(decoder, &status);
		switch (step->kind) {
		case COND:
			status = pt_qry_cond_branch(decoder, &taken);
			CHECK(status >= 0);
			CHECK_EQ(taken, step->taken);
			break;
		case INDIRECT:
			status = pt_qry_indirect_branch(decoder, &to);
			CHECK(status >= 0);
			CHECK_EQ(to, step->to);
			break;
		case CALL:
			stacks_call(stacks, step->to);
			break;
		case RETURN:
			to = step->to;
			status = pt_qry_cond_branch(decoder, &taken);
			if (status == -pte_bad_query)
				status = pt_qry_indirect_branch(decoder, &to);
			CHECK(status >= 0);
			CHECK(taken != 0);
			CHECK_EQ(to, step->to);
			stacks_return(stacks, taken > 0, step->to);
			compressed += taken > 0;
			plain += taken < 0;
			break;
		case OFF_FAR:
			CHECK(take_event(decoder, &status, ptev_disabled));
			CHECK_EQ(take_event(decoder, &status, ptev_enabled), step->to);
			break;
		case OFF_AT:
			CHECK_EQ(take_event(decoder, &status, ptev_async_disabled), at);
			CHECK_EQ(take_event(decoder, &status, ptev_enabled), step->to);
			break;
		}
		at = step->after;
	}
	/* Compression must really happen, and not always. */
	CHECK(compressed > n / 16);
	CHECK(plain > n / 100);
	pt_qry_free_decoder(decoder);
	free(stacks);
}

TEST(a_random_walk_reads_back)
{
	struct step *steps = calloc(STEPS, sizeof(*steps));

	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct bench bench;

		bench_start(&bench, RING);
		walk(&bench.encoder, seed * 7919, steps);
		bench_finish(&bench);
		read_walk(&bench, steps, STEPS);
		bench_end(&bench);
	}
	free(steps);
}

struct count {
	size_t psb, tsc, tnt8, tnt64, tip, bytes, tsc_bytes, max_psb_distance;
	size_t ipc[8];
};

static void count_packets(const struct bench *bench, struct count *count)
{
	struct pt_packet_decoder *decoder = pt_pkt_alloc_decoder(&bench->config);
	struct pt_packet packet;
	uint64_t offset, psb_at = 0;

	memset(count, 0, sizeof(*count));
	CHECK(pt_pkt_sync_forward(decoder) >= 0);
	while (pt_pkt_next(decoder, &packet, sizeof(packet)) > 0) {
		pt_pkt_get_offset(decoder, &offset);
		count->psb += packet.type == ppt_psb;
		count->tsc += packet.type == ppt_tsc;
		count->tnt8 += packet.type == ppt_tnt_8;
		count->tnt64 += packet.type == ppt_tnt_64;
		count->tip += packet.type == ppt_tip;
		count->tsc_bytes += packet.type == ppt_tsc ? packet.size : 0;
		if (packet.type == ppt_tip)
			count->ipc[packet.payload.ip.ipc]++;
		if (packet.type == ppt_psb) {
			if (offset - psb_at > count->max_psb_distance)
				count->max_psb_distance = offset - psb_at;
			psb_at = offset;
		}
	}
	pt_pkt_get_offset(decoder, &offset);
	CHECK_EQ(offset, bench->n);
	count->bytes = bench->n;
	pt_pkt_free_decoder(decoder);
}

TEST(synchronises_within_a_quarter_of_the_ring_and_4k)
{
	const uint64_t sizes[] = { 4096, 16384, RING };
	struct step *steps = calloc(STEPS, sizeof(*steps));

	for (size_t i = 0; i < 3; i++) {
		const uint64_t limit = sizes[i] / 4 < 4096 ? sizes[i] / 4 : 4096;
		struct bench bench;
		struct count count;

		bench_start(&bench, sizes[i]);
		walk(&bench.encoder, 11, steps);
		bench_finish(&bench);
		count_packets(&bench, &count);
		CHECK(count.psb >= 3);
		CHECK(count.max_psb_distance <= limit);
		bench_end(&bench);
	}
	free(steps);
}

TEST(time_takes_at_most_about_a_quarter)
{
	struct step *steps = calloc(STEPS, sizeof(*steps));
	struct bench bench;
	struct count count;

	bench_start(&bench, RING);
	walk(&bench.encoder, 5, steps);
	bench_finish(&bench);
	count_packets(&bench, &count);
	CHECK(count.tsc_bytes * 100 < count.bytes * 30);
	CHECK(count.tsc_bytes * 100 > count.bytes * 10);
	bench_end(&bench);
	free(steps);
}

TEST(every_ip_compression_occurs)
{
	struct step *steps = calloc(STEPS, sizeof(*steps));
	struct bench bench;
	struct count count;

	bench_start(&bench, RING);
	walk(&bench.encoder, 17, steps);
	bench_finish(&bench);
	count_packets(&bench, &count);
	CHECK(count.ipc[pt_ipc_update_16] && count.ipc[pt_ipc_update_32] &&
	      count.ipc[pt_ipc_sext_48] && count.ipc[pt_ipc_full]);
	CHECK_EQ(count.ipc[pt_ipc_suppressed], 0);
	bench_end(&bench);
	free(steps);
}

TEST(many_conditions_take_the_long_form)
{
	struct bench bench;
	struct count count;

	bench_start(&bench, RING);
	encoder_begin(&bench.encoder, 0x1000, false);
	for (int i = 0; i < 470; i++)
		encoder_cond(&bench.encoder, i % 3 == 0, 0x1000);
	for (int i = 0; i < 8; i++)
		encoder_cond(&bench.encoder, true, 0x1000);
	encoder_end_at(&bench.encoder, 0x1000);
	bench_finish(&bench);
	count_packets(&bench, &count);
	CHECK_EQ(count.tnt64, 10);
	CHECK_EQ(count.tnt8, 2);
	bench_end(&bench);
}

TEST(steps_are_the_time_when_asked)
{
	struct pt_packet packet = { 0 };
	struct pt_packet_decoder *decoder;
	struct bench bench;
	uint64_t last = 0;

	bench_start(&bench, RING);
	bench.steps = 1000;
	encoder_begin(&bench.encoder, 0x1000, false);
	encoder_end_at(&bench.encoder, 0x1000);
	bench.steps = 2000;
	encoder_begin(&bench.encoder, 0x1000, false);
	encoder_end_at(&bench.encoder, 0x1000);
	bench_finish(&bench);
	decoder = pt_pkt_alloc_decoder(&bench.config);
	CHECK(pt_pkt_sync_forward(decoder) >= 0);
	while (pt_pkt_next(decoder, &packet, sizeof(packet)) > 0) {
		if (packet.type == ppt_tsc)
			last = packet.payload.tsc.tsc;
	}
	CHECK_EQ(last, 2000);
	pt_pkt_free_decoder(decoder);
	bench_end(&bench);
}

TEST(an_overflow_is_an_overflow_for_the_decoder)
{
	struct pt_query_decoder *decoder;
	struct bench bench;
	uint64_t ip;
	int status;

	bench_start(&bench, RING);
	encoder_begin(&bench.encoder, 0x1000, false);
	encoder_cond(&bench.encoder, true, 0x1000);
	encoder_overflow(&bench.encoder, 0x2000);
	encoder_indirect(&bench.encoder, 0x3000);
	encoder_end_at(&bench.encoder, 0x3000);
	bench_finish(&bench);
	decoder = pt_qry_alloc_decoder(&bench.config);
	status = pt_qry_sync_forward(decoder, &ip);
	CHECK(take_event(decoder, &status, ptev_enabled));
	take_events(decoder, &status);
	status = pt_qry_cond_branch(decoder, &(int){ 0 });
	CHECK(take_event(decoder, &status, ptev_overflow));
	take_events(decoder, &status);
	status = pt_qry_indirect_branch(decoder, &ip);
	CHECK(status >= 0);
	CHECK_EQ(ip, 0x3000);
	pt_qry_free_decoder(decoder);
	bench_end(&bench);
}

UNIT_MAIN("unit/encoder")
