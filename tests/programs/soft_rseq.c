// SPDX-License-Identifier: GPL-2.0-only
/*
 * soft_rseq: restartable sequences that retry until they succeed. A stop inside one aborts it, so a
 * tracer that steps through them never lets this program end. Exits 0 when every sequence
 * committed.
 *
 * flags: -static
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/rseq.h>

static long counter, aborts;

static struct rseq *area(void)
{
	return (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

/* Adds one to @value in a sequence that begins anew when it is interrupted. */
__attribute__((noinline)) static void add_one(struct rseq *rseq, long *value)
{
	__asm__ volatile(
		".pushsection __rseq_cs, \"aw\"\n\t"
		".balign 32\n\t"
		"3:\n\t"
		".long 0, 0\n\t"
		".quad 1f, 2f - 1f, 4f\n\t"
		".popsection\n\t"
		"0:\n\t"
		"leaq 3b(%%rip), %%rax\n\t"
		"movq %%rax, %c[cs](%[rseq])\n\t"
		"1:\n\t"
		"movq (%[value]), %%rcx\n\t"
		"movl $20, %%edx\n\t"
		"5:\n\t"
		"decl %%edx\n\t"
		"jnz 5b\n\t"
		"addq $1, %%rcx\n\t"
		"movq %%rcx, (%[value])\n\t"
		"2:\n\t"
		"movq $0, %c[cs](%[rseq])\n\t"
		"jmp 6f\n\t"
		".byte 0x0f, 0xb9, 0x3d\n\t"
		".long 0x53053053\n\t"
		"4:\n\t"
		"incq %[aborts]\n\t"
		"jmp 0b\n\t"
		"6:\n\t"
		: [aborts] "+m"(aborts)
		: [rseq] "r"(rseq), [value] "r"(value), [cs] "i"(offsetof(struct rseq, rseq_cs))
		: "rax", "rcx", "rdx", "memory", "cc");
}

int main(void)
{
	if (!__rseq_size) {
		puts("no rseq");
		return 0;
	}
	for (int i = 0; i < 20; i++)
		add_one(area(), &counter);
	printf("%ld sequences, %ld aborts\n", counter, aborts);
	return counter == 20 ? 0 : 1;
}
