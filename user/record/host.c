// SPDX-License-Identifier: GPL-2.0-only
#include "record/host.h"

#include <cpuid.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

void host_cpu(struct recording_cpu *cpu)
{
	unsigned int eax, ebx, ecx, edx;

	*cpu = (struct recording_cpu){ 0 };
	if (!__get_cpuid(0, &eax, &ebx, &ecx, &edx))
		return;
	cpu->intel = ebx == signature_INTEL_ebx && ecx == signature_INTEL_ecx &&
		     edx == signature_INTEL_edx;
	__get_cpuid(1, &eax, &ebx, &ecx, &edx);
	/* SDM vol. 2, CPUID: the extended fields count for family 15 and (model) 6 */
	cpu->family = (eax >> 8) & 0xf;
	cpu->model = (eax >> 4) & 0xf;
	cpu->stepping = eax & 0xf;
	if (cpu->family == 0xf || cpu->family == 6)
		cpu->model |= ((eax >> 16) & 0xf) << 4;
	if (cpu->family == 0xf)
		cpu->family = (uint16_t)(cpu->family + ((eax >> 20) & 0xff));
}

/* The processor's name, CPUID leaves 80000002H to 80000004H. */
static void model_name(char name[49])
{
	unsigned int regs[12] = { 0 };

	for (unsigned int i = 0; i < 3; i++) {
		if (!__get_cpuid(0x80000002u + i, &regs[4 * i], &regs[4 * i + 1], &regs[4 * i + 2],
				 &regs[4 * i + 3]))
			break;
	}
	memcpy(name, regs, 48);
	name[48] = '\0';
	for (size_t n = strlen(name); n && name[n - 1] == ' '; n--)
		name[n - 1] = '\0';
}

int host_describe(char **host, char **kernel, char **cpu)
{
	struct utsname uts;
	char name[49];

	if (uname(&uts))
		return -errno;
	model_name(name);
	*host = strdup(uts.nodename);
	*kernel = strdup(uts.release);
	*cpu = strdup(name);
	return *host && *kernel && *cpu ? 0 : -ENOMEM;
}
