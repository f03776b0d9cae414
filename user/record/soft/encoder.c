// SPDX-License-Identifier: GPL-2.0-only
#include "record/soft/encoder.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"

#define PSB_PERIOD_MAX 4096u
#define EVENT_MAX 128u /* bytes of one event and a PSB+ */
#define TSC_EVERY 32u  /* bytes of other packets: time takes about a fifth of the ring */
#define TNT_LONG_BITS 47u
#define TNT_SHORT_BITS 6u
#define PACKET_MAX 16u /* PSB, the longest */

int encoder_init(struct encoder *encoder, const uint64_t *steps)
{
	struct pt_config config;

	memset(encoder, 0, sizeof(*encoder));
	pt_config_init(&config);
	config.begin = encoder->staging;
	config.end = encoder->staging + sizeof(encoder->staging);
	encoder->packets = pt_alloc_encoder(&config);
	encoder->steps = steps;
	return encoder->packets ? 0 : -ENOMEM;
}

void encoder_fini(struct encoder *encoder)
{
	if (encoder->packets)
		pt_free_encoder(encoder->packets);
	encoder->packets = NULL;
}

static void unstage(struct encoder *encoder)
{
	encoder->before_begin.valid = false;
	if (!encoder->staged)
		return;
	aux_ring_write(encoder->ring, encoder->staging, encoder->staged);
	encoder->staged = 0;
	pt_enc_sync_set(encoder->packets, 0);
}

static void put(struct encoder *encoder, const struct pt_packet *packet)
{
	int size;

	if (encoder->staged + PACKET_MAX > sizeof(encoder->staging))
		unstage(encoder);
	size = pt_enc_next(encoder->packets, packet);
	if (size <= 0)
		return; /* not reachable: room is there and every packet is well-formed */
	encoder->staged += (unsigned int)size;
	encoder->written += (unsigned int)size;
}

static void put_plain(struct encoder *encoder, enum pt_packet_type type)
{
	const struct pt_packet packet = { .type = type };

	put(encoder, &packet);
}

static void put_mode(struct encoder *encoder)
{
	struct pt_packet packet = { .type = ppt_mode };

	packet.payload.mode.leaf = pt_mol_exec;
	packet.payload.mode.bits.exec.csl = !encoder->mode_32;
	packet.payload.mode.bits.exec.csd = encoder->mode_32;
	put(encoder, &packet);
}

static void put_tsc(struct encoder *encoder)
{
	struct pt_packet packet = { .type = ppt_tsc };
	uint64_t tsc = encoder->steps ? *encoder->steps : clock_tsc();

	if (!encoder->steps && encoder->tsc_limit && tsc > encoder->tsc_limit)
		tsc = encoder->tsc_limit;
	packet.payload.tsc.tsc = tsc & ((1ull << 56) - 1);
	put(encoder, &packet);
	encoder->tsc_at = encoder->written;
}

/* Table "FUP/TIP IP reconstruction" of the SDM, backwards: the shortest payload that gives @ip. */
static void put_ip(struct encoder *encoder, enum pt_packet_type type, uint64_t ip)
{
	const uint64_t differs = ip ^ encoder->last_ip;
	struct pt_packet packet = { .type = type };
	struct pt_packet_ip *payload = &packet.payload.ip;

	if (!encoder->last_ip_known) {
		payload->ipc = pt_ipc_full;
		payload->ip = ip;
	} else if (!(differs >> 16)) {
		payload->ipc = pt_ipc_update_16;
		payload->ip = ip & 0xffff;
	} else if (!(differs >> 32)) {
		payload->ipc = pt_ipc_update_32;
		payload->ip = ip & 0xffffffff;
	} else if ((uint64_t)((int64_t)(ip << 16) >> 16) == ip) {
		payload->ipc = pt_ipc_sext_48;
		payload->ip = ip & 0xffffffffffffull;
	} else {
		payload->ipc = pt_ipc_full;
		payload->ip = ip;
	}
	encoder->last_ip = ip;
	encoder->last_ip_known = true;
	put(encoder, &packet);
}

static void put_no_ip(struct encoder *encoder, enum pt_packet_type type)
{
	struct pt_packet packet = { .type = type };

	packet.payload.ip.ipc = pt_ipc_suppressed;
	put(encoder, &packet);
}

static void put_tnt(struct encoder *encoder, enum pt_packet_type type, unsigned int bits)
{
	struct pt_packet packet = { .type = type };

	packet.payload.tnt.bit_size = (uint8_t)bits;
	packet.payload.tnt.payload =
		(encoder->tnt >> (encoder->n_tnt - bits)) & ((1ull << bits) - 1);
	put(encoder, &packet);
	encoder->n_tnt -= bits;
}

/* Seven and a half short packets are as long as one long packet: long only where it is no longer.
 */
static void flush_tnt(struct encoder *encoder)
{
	if (encoder->n_tnt > 7 * TNT_SHORT_BITS) {
		put_tnt(encoder, ppt_tnt_64, encoder->n_tnt);
		return;
	}
	while (encoder->n_tnt)
		put_tnt(encoder, ppt_tnt_8,
			encoder->n_tnt < TNT_SHORT_BITS ? encoder->n_tnt : TNT_SHORT_BITS);
}

static void forget_returns(struct encoder *encoder)
{
	encoder->depth = 0;
}

/* PSB+ for a thread that stands at @ip, or is not traced at the moment. */
static void put_psb(struct encoder *encoder, uint64_t ip)
{
	flush_tnt(encoder);
	put_plain(encoder, ppt_psb);
	encoder->last_ip_known = false;
	encoder->last_ip = 0;
	forget_returns(encoder);
	put_tsc(encoder);
	if (encoder->on) {
		put_mode(encoder);
		put_ip(encoder, ppt_fup, ip);
	}
	put_plain(encoder, ppt_psbend);
	unstage(encoder);
	encoder->ring->header->psb_head = encoder->ring->header->head;
	encoder->psb_at = encoder->tsc_at = encoder->written;
	/* The first IP after PSBEND is whole again: perf 6.1 does not carry it over. */
	encoder->last_ip_known = false;
}

static bool psb_is_due(const struct encoder *encoder)
{
	return encoder->written - encoder->psb_at >= encoder->psb_period;
}

static void time_if_due(struct encoder *encoder)
{
	if (encoder->written - encoder->tsc_at >= TSC_EVERY)
		put_tsc(encoder);
}

/* After an event: the thread stands at @ip. */
static void synchronise_if_due(struct encoder *encoder, uint64_t ip)
{
	if (psb_is_due(encoder))
		put_psb(encoder, ip);
}

void encoder_attach(struct encoder *encoder, struct aux_ring *ring)
{
	encoder->ring = ring;
	encoder->written = 0;
	encoder->n_tnt = 0;
	encoder->staged = 0;
	encoder->on = false;
	encoder->psb_period = ring->size / 4 < PSB_PERIOD_MAX ? ring->size / 4 : PSB_PERIOD_MAX;
	encoder->psb_period -= EVENT_MAX;
	pt_enc_sync_set(encoder->packets, 0);
	put_psb(encoder, 0);
}

void encoder_detach(struct encoder *encoder)
{
	encoder_flush(encoder);
	aux_ring_flush(encoder->ring);
	encoder->ring = NULL;
}

void encoder_begin(struct encoder *encoder, uint64_t ip, bool mode_32)
{
	const bool fresh = encoder->written == encoder->psb_at, whole = psb_is_due(encoder);

	encoder->before_begin.staged = encoder->staged;
	encoder->before_begin.written = encoder->written;
	encoder->before_begin.tsc_at = encoder->tsc_at;
	encoder->before_begin.last_ip = encoder->last_ip;
	encoder->before_begin.last_ip_known = encoder->last_ip_known;
	encoder->before_begin.mode_32 = encoder->mode_32;
	if (whole)
		put_psb(encoder, 0);
	else if (!fresh)
		put_tsc(encoder);
	if (fresh || encoder->mode_32 != mode_32 || !encoder->last_ip_known) {
		encoder->mode_32 = mode_32;
		put_mode(encoder);
	}
	put_ip(encoder, ppt_tip_pge, ip);
	encoder->on = true;
	encoder->before_begin.valid = !whole;
}

bool encoder_retract(struct encoder *encoder)
{
	if (!encoder->on || !encoder->before_begin.valid)
		return false;
	encoder->staged = encoder->before_begin.staged;
	encoder->written = encoder->before_begin.written;
	encoder->tsc_at = encoder->before_begin.tsc_at;
	encoder->last_ip = encoder->before_begin.last_ip;
	encoder->last_ip_known = encoder->before_begin.last_ip_known;
	encoder->mode_32 = encoder->before_begin.mode_32;
	encoder->before_begin.valid = encoder->on = false;
	pt_enc_sync_set(encoder->packets, encoder->staged);
	return true;
}

static void add_tnt(struct encoder *encoder, bool taken)
{
	encoder->tnt = encoder->tnt << 1 | taken;
	if (++encoder->n_tnt < TNT_LONG_BITS)
		return;
	flush_tnt(encoder);
	time_if_due(encoder);
}

void encoder_cond(struct encoder *encoder, bool taken, uint64_t to)
{
	encoder->ring->header->branches++;
	add_tnt(encoder, taken);
	synchronise_if_due(encoder, to);
}

static void put_tip(struct encoder *encoder, uint64_t to)
{
	flush_tnt(encoder);
	time_if_due(encoder);
	put_ip(encoder, ppt_tip, to);
	synchronise_if_due(encoder, to);
}

void encoder_indirect(struct encoder *encoder, uint64_t to)
{
	encoder->ring->header->branches++;
	put_tip(encoder, to);
}

void encoder_call(struct encoder *encoder, uint64_t return_address)
{
	encoder->ring->header->branches++;
	encoder->top = (encoder->top + 1) % ENCODER_RETURNS;
	encoder->returns[encoder->top] = return_address;
	if (encoder->depth < ENCODER_RETURNS)
		encoder->depth++;
}

void encoder_return(struct encoder *encoder, uint64_t to)
{
	encoder->ring->header->branches++;
	if (encoder->depth && encoder->returns[encoder->top] == to) {
		encoder->top = (encoder->top + ENCODER_RETURNS - 1) % ENCODER_RETURNS;
		encoder->depth--;
		add_tnt(encoder, true);
		synchronise_if_due(encoder, to);
		return;
	}
	/* perf pops at a return that is not compressed, libipt does not: only an empty stack suits
	 * both. */
	forget_returns(encoder);
	put_tip(encoder, to);
}

void encoder_far(struct encoder *encoder, uint64_t to, bool mode_32)
{
	encoder->ring->header->branches++;
	flush_tnt(encoder);
	time_if_due(encoder);
	if (encoder->mode_32 != mode_32) {
		encoder->mode_32 = mode_32;
		put_mode(encoder);
	}
	put_ip(encoder, ppt_tip, to);
	synchronise_if_due(encoder, to);
}

void encoder_end_far(struct encoder *encoder)
{
	encoder->ring->header->branches++;
	flush_tnt(encoder);
	if (encoder->written != encoder->tsc_at)
		put_tsc(encoder);
	put_no_ip(encoder, ppt_tip_pgd);
	encoder->on = false;
}

void encoder_end_at(struct encoder *encoder, uint64_t ip)
{
	flush_tnt(encoder);
	if (encoder->written != encoder->tsc_at)
		put_tsc(encoder);
	put_ip(encoder, ppt_fup, ip);
	put_no_ip(encoder, ppt_tip_pgd);
	encoder->on = false;
}

uint64_t encoder_restart(struct encoder *encoder)
{
	uint64_t head;

	encoder_flush(encoder);
	head = encoder->ring->header->head;
	put_psb(encoder, 0);
	return head;
}

void encoder_overflow(struct encoder *encoder, uint64_t ip)
{
	flush_tnt(encoder);
	put_plain(encoder, ppt_ovf);
	put_tsc(encoder);
	/* OVF ends what was on; FUP says that tracing goes on there. */
	put_ip(encoder, ppt_fup, ip);
	forget_returns(encoder);
	encoder->on = true;
	put_psb(encoder, ip);
}

void encoder_flush(struct encoder *encoder)
{
	if (!encoder->on)
		flush_tnt(encoder);
	unstage(encoder);
}
