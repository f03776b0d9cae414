/* SPDX-License-Identifier: GPL-2.0-only */
/* What doctor looks at; private to doctor*.c. */
#ifndef PTBPF_CMD_DOCTOR_H
#define PTBPF_CMD_DOCTOR_H

enum doctor_status {
	DOCTOR_PASS,
	DOCTOR_WARN, /* something is lost, recording works */
	DOCTOR_FAIL, /* recording does not work */
};

struct doctor_finding {
	enum doctor_status status;
	char found[200];     /* what was tried, and what came of it */
	const char *meaning; /* what that costs; "" when nothing */
	const char *remedy;
};

/* Fills @finding by trying; never logs. */
typedef void (*doctor_check_fn)(struct doctor_finding *finding);

void doctor_report(struct doctor_finding *finding, enum doctor_status status, const char *meaning,
		   const char *remedy, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* doctor_target.c: children of ours are the targets */
void doctor_ptrace(struct doctor_finding *finding);
void doctor_debug_registers(struct doctor_finding *finding);
void doctor_attach(struct doctor_finding *finding);
/* doctor_kernel.c */
void doctor_intel_pt(struct doctor_finding *finding);
void doctor_bpf(struct doctor_finding *finding);
void doctor_uprobe(struct doctor_finding *finding);
void doctor_btf(struct doctor_finding *finding);
void doctor_paranoid(struct doctor_finding *finding);
void doctor_tracefs(struct doctor_finding *finding);
/* doctor_host.c */
void doctor_ring(struct doctor_finding *finding);
void doctor_memory(struct doctor_finding *finding);
void doctor_memlock(struct doctor_finding *finding);
void doctor_disk(struct doctor_finding *finding);
void doctor_clock(struct doctor_finding *finding);
void doctor_libipt(struct doctor_finding *finding);

#endif
