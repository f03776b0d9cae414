/* SPDX-License-Identifier: GPL-2.0-only */
/* What machine this is, for snapshot.json and perf.data. */
#ifndef PTBPF_RECORD_HOST_H
#define PTBPF_RECORD_HOST_H

#include "snapshot/recording.h"

/* Heap strings: host name, kernel release, processor model. 0, -ENOMEM. */
int host_describe(char **host, char **kernel, char **cpu);
/* Vendor, family, model, stepping by CPUID. */
void host_cpu(struct recording_cpu *cpu);

#endif
