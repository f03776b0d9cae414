// SPDX-License-Identifier: GPL-2.0-only
#include "decode/walk.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"

/* SDM, "Time Stamp Counter (TSC) Packet": 7 bytes. */
#define TSC_BITS 56

#define MAX_WASTED (64u << 20)
#define SHORT_PATIENCE 4096

static void configure(const struct recording *recording, const struct recording_chunk *chunk,
		      struct pt_config *config)
{
	const struct recording_cpu *cpu = &recording->cpu;
	const struct recording_pt *pt = &recording->pt;

	pt_config_init(config);
	config->begin = chunk->data;
	config->end = chunk->data + chunk->size;
	config->mtc_freq = (uint8_t)pt->mtc_freq;
	config->nom_freq = pt->max_nonturbo_ratio;
	config->cpuid_0x15_eax = pt->tsc_ctc_d;
	config->cpuid_0x15_ebx = pt->tsc_ctc_n;
	if (!cpu->intel)
		return;
	config->cpu = (struct pt_cpu){ .vendor = pcv_intel,
				       .family = cpu->family,
				       .model = cpu->model,
				       .stepping = cpu->stepping };
	/* A model newer than libipt has no errata that it knows of. */
	(void)pt_cpu_errata(&config->errata, &config->cpu);
}

/*
 * Bytes at the chunk's end that are the beginning of something only, a packet or a PSB+: no error,
 * and no trace.
 */
static uint64_t cut_off(struct pt_packet_decoder *packets, const struct pt_config *config)
{
	uint64_t psb, end, size = (uint64_t)(config->end - config->begin);
	struct pt_packet packet;
	bool whole = false;
	int status;

	if (pt_pkt_sync_backward(packets) < 0 || pt_pkt_get_sync_offset(packets, &psb) < 0)
		return 0;
	for (;;) {
		status = pt_pkt_next(packets, &packet, sizeof(packet));
		if (status < 0)
			break;
		/* An overflow inside a PSB+ ends it too. */
		whole |= packet.type == ppt_psbend || packet.type == ppt_ovf;
	}
	if (status != -pte_eos || pt_pkt_get_offset(packets, &end) < 0)
		return 0;
	return size - (whole ? end : psb);
}

int walk_enter(struct walk *walk, const struct recording_chunk *chunk, struct pt_config *config)
{
	const struct recording *recording = walk->engine->recording;
	uint64_t near_ns = chunk->end_ns ? chunk->end_ns : chunk->start_ns;

	if (walk->chunk)
		walk->base += walk->chunk->size;
	walk->chunk = chunk;
	walk->reference = 0;
	/* Where the counter was 0 may lie before the clock's own 0: zero is then "negative". */
	if (near_ns && recording->clock.mult && (int64_t)(near_ns - recording->clock.zero) >= 0)
		walk->reference = clock_ns_to_tsc(&recording->clock, near_ns);
	walk->epoch = 0;
	walk->size = 0;
	if (chunk->size) {
		configure(recording, chunk, config);
		walk->packets = pt_pkt_alloc_decoder(config);
		if (!walk->packets)
			return -ENOMEM;
		config->end -= cut_off(walk->packets, config);
		walk->size = (uint64_t)(config->end - config->begin);
	}
	return images_process(&walk->engine->images, chunk->pid, &walk->process);
}

void walk_leave(struct walk *walk)
{
	pt_pkt_free_decoder(walk->packets);
	walk->packets = NULL;
}

/* The full counter nearest to the reference whose low bits are @tsc. */
static uint64_t widen(const struct walk *walk, uint64_t tsc)
{
	const uint64_t period = 1ull << TSC_BITS, half = period / 2;
	uint64_t full;

	if (walk->reference < half)
		return tsc;
	full = (walk->reference & ~(period - 1)) | (tsc & (period - 1));
	if (full > walk->reference && full - walk->reference > half)
		full -= period;
	else if (walk->reference > full && walk->reference - full > half)
		full += period;
	return full;
}

void walk_set_tsc(struct walk *walk, uint64_t tsc)
{
	const struct clock_conv *conv = &walk->engine->recording->clock;
	uint64_t time_ns;

	if (tsc == walk->tsc)
		return;
	walk->tsc = tsc;
	walk->exact = true;
	tsc = widen(walk, tsc);
	time_ns = conv->mult ? clock_tsc_to_ns(conv, tsc) : tsc;
	if (time_ns > walk->time_ns)
		walk->time_ns = time_ns;
}

int walk_image(struct walk *walk, struct pt_image **image)
{
	walk->epoch = images_epoch_at(walk->process, walk->time_ns);
	return images_of_epoch(&walk->engine->images, walk->process, walk->epoch, image);
}

void walk_look_ahead(struct walk *walk, uint64_t offset)
{
	struct pt_packet packet;
	bool enabled = false;

	if (pt_pkt_sync_set(walk->packets, offset) < 0)
		return;
	while (pt_pkt_next(walk->packets, &packet, sizeof(packet)) > 0) {
		switch (packet.type) {
		case ppt_tip_pge:
			enabled = true;
			break;
		case ppt_tsc:
			if (enabled)
				walk_set_tsc(walk, packet.payload.tsc.tsc);
			break;
		case ppt_tnt_8:
		case ppt_tnt_64:
		case ppt_tip:
		case ppt_tip_pgd:
		case ppt_fup:
		case ppt_psb:
		case ppt_ovf:
			if (enabled)
				return;
			break;
		default:
			break;
		}
	}
}

int walk_new_image(struct walk *walk, struct pt_image **image)
{
	*image = NULL;
	if (walk->epoch + 1 >= walk->process->epochs.len ||
	    walk->time_ns < walk->process->epochs.data[walk->epoch + 1].from_ns)
		return 0;
	return walk_image(walk, image);
}

uint64_t walk_find_psb(const struct walk *walk, uint64_t offset)
{
	static const uint8_t psb[] = { 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
				       0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82 };
	const struct recording_chunk *chunk = walk->chunk;
	const uint8_t *found;

	if (offset >= walk->size)
		return UINT64_MAX;
	found = memmem(chunk->data + offset, walk->size - offset, psb, sizeof(psb));
	return found ? (uint64_t)(found - chunk->data) : UINT64_MAX;
}

uint64_t walk_next_psb(const struct walk *walk, uint64_t psb, uint64_t position)
{
	return walk_find_psb(walk, position > psb ? position : psb + 1);
}

void walk_loop_reset(struct walk_loop *loop)
{
	loop->left = loop->limit = 1;
	loop->ip = loop->passed = 0;
}

bool walk_loop_passes(struct walk_loop *loop, uint64_t insns)
{
	loop->passed += insns;
	return loop->wasted > MAX_WASTED && loop->passed > SHORT_PATIENCE;
}

bool walk_loop_closed(struct walk_loop *loop, uint64_t ip, uint64_t insns)
{
	if (walk_loop_passes(loop, insns) || ip == loop->ip) {
		loop->wasted += loop->passed;
		return true;
	}
	if (!--loop->left) {
		loop->ip = ip;
		loop->limit *= 2;
		loop->left = loop->limit;
	}
	return false;
}

enum branch_gap walk_gap_of_error(int error)
{
	switch (-error) {
	case pte_nomap:
	case pte_bad_image:
	case pte_bad_file:
		return GAP_NO_IMAGE;
	case pte_bad_opc:
	case pte_bad_packet:
	case pte_bad_context:
	case pte_bad_config:
	case pte_nomem: /* libipt's queue of events is full: more than a PSB+ may hold */
	case pte_eos:   /* the stream ends inside a packet that must follow another */
		return GAP_BAD_PACKET;
	default:
		return GAP_MISMATCH;
	}
}
