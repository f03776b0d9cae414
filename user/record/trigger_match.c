// SPDX-License-Identifier: GPL-2.0-only
#include "record/trigger_match.h"

#include <stdlib.h>
#include <string.h>

#include "record/trigger_condition.h"

static bool conditions_hold(const struct ptbpf_trigger *trigger, const uint64_t args[6])
{
	for (uint32_t i = 0; i < trigger->n_conditions && i < PTBPF_MAX_CONDITIONS; i++) {
		const struct ptbpf_condition *const condition = &trigger->conditions[i];

		if (!condition_holds(condition, args[condition->arg % 6]))
			return false;
	}
	return true;
}

/* Fire k may happen when fire k - N lies a whole window back. */
static bool rate_allows(struct trigger_match *match, const struct ptbpf_trigger *trigger,
			uint64_t now)
{
	uint64_t *slot;

	if (!trigger->rate_count || !trigger->rate_ns)
		return true;
	if (!match->times)
		match->times = calloc(trigger->rate_count, sizeof(*match->times));
	if (!match->times)
		return false;
	slot = &match->times[match->rated % trigger->rate_count];
	if (*slot && now < *slot + trigger->rate_ns)
		return false;
	*slot = now;
	match->rated++;
	return true;
}

bool trigger_match(struct trigger_match *match, const struct ptbpf_trigger *trigger,
		   const struct trigger_hit *hit)
{
	uint64_t nth;

	if (trigger->flags & PTBPF_TRIGGER_HAS_TID && trigger->tid != hit->tid)
		return false;
	if (trigger->flags & PTBPF_TRIGGER_HAS_COMM &&
	    strncmp(trigger->comm, hit->comm, PTBPF_COMM_LEN))
		return false;
	if (!conditions_hold(trigger, hit->args))
		return false;
	nth = match->matched++; /* from 0 */
	if (nth < trigger->after)
		return false;
	if (trigger->every > 1 && (nth - trigger->after + 1) % trigger->every)
		return false;
	if (trigger->flags & PTBPF_TRIGGER_HAS_SAMPLE &&
	    ((uint64_t)hit->random * 1000000) >> 32 >= trigger->sample_ppm)
		return false;
	return rate_allows(match, trigger, hit->time_ns);
}

void trigger_match_fini(struct trigger_match *match)
{
	free(match->times);
	*match = (struct trigger_match){};
}
