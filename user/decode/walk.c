// SPDX-License-Identifier: GPL-2.0-only
#include "decode/walk.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"

/* SDM, "Time Stamp Counter (TSC) Packet": 7 bytes. */
#define TSC_BITS 56

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

int walk_enter(struct walk *walk, const struct recording_chunk *chunk, struct pt_config *config)
{
	const struct recording *recording = walk->engine->recording;
	uint64_t near_ns = chunk->end_ns ? chunk->end_ns : chunk->start_ns;

	configure(recording, chunk, config);
	if (walk->chunk)
		walk->base += walk->chunk->size;
	walk->chunk = chunk;
	walk->reference = 0;
	if (near_ns && recording->clock.mult && near_ns >= recording->clock.zero)
		walk->reference = clock_ns_to_tsc(&recording->clock, near_ns);
	walk->epoch = 0;
	return images_process(&walk->engine->images, chunk->pid, &walk->process);
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

int walk_new_image(struct walk *walk, struct pt_image **image)
{
	size_t n = walk->process->epochs.len;

	*image = NULL;
	if (walk->epoch + 1 >= n ||
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

	if (offset >= chunk->size)
		return UINT64_MAX;
	found = memmem(chunk->data + offset, chunk->size - offset, psb, sizeof(psb));
	return found ? (uint64_t)(found - chunk->data) : UINT64_MAX;
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
	case pte_eos: /* the stream ends inside a packet that must follow another */
		return GAP_BAD_PACKET;
	default:
		return GAP_MISMATCH;
	}
}
