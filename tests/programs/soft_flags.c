// SPDX-License-Identifier: GPL-2.0-only
/*
 * soft_flags: instructions that a single step changes. The pushed flags must not show the tracer's
 * trap flag, the program's own trap flag must work, string instructions count once, a load of SS
 * holds the trap back by one instruction. Exits with the number of the first check that failed.
 *
 * flags: -static
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t traps;

static void on_trap(int sig)
{
	(void)sig;
	traps++;
}

__attribute__((noinline)) static uint64_t pushed_flags(void)
{
	uint64_t flags;

	__asm__ volatile("pushfq\n\tpopq %0" : "=r"(flags));
	return flags;
}

/* Its own single step over three NOPs. */
__attribute__((noinline)) static void step_itself(void)
{
	__asm__ volatile("pushfq\n\t"
			 "orq $0x100, (%%rsp)\n\t"
			 "popfq\n\t"
			 "nop\n\tnop\n\tnop\n\t"
			 "pushfq\n\t"
			 "andq $~0x100, (%%rsp)\n\t"
			 "popfq\n\t"
			 "nop"
			 :
			 :
			 : "memory", "cc");
}

__attribute__((noinline)) static int load_ss(int n)
{
	int out;

	__asm__ volatile("movl %%ss, %%eax\n\t"
			 "movl %%eax, %%ss\n\t"
			 "leal 1(%1), %0\n\t"
			 "movl %%eax, %%ss\n\t"
			 "jmp 1f\n\t"
			 "nop\n"
			 "1:"
			 : "=r"(out)
			 : "r"(n)
			 : "eax");
	return out;
}

__attribute__((noinline)) static int strings(void)
{
	static char from[3000], to[3000];
	void *destination = to;
	const void *source = from;
	unsigned long n = sizeof(from);

	memset(from, 'x', sizeof(from) - 1);
	__asm__ volatile("rep movsb" : "+D"(destination), "+S"(source), "+c"(n) : : "memory");
	destination = to;
	n = sizeof(to);
	__asm__ volatile("repne scasb" : "+D"(destination), "+c"(n) : "a"(0) : "memory", "cc");
	return (char *)destination - to == sizeof(to);
}

/* Conditional branches to the next instruction, by count, and far ones that stay here. */
__attribute__((noinline)) static long odd_branches(void)
{
	long n = 0;

	__asm__ volatile("xorl %%ecx, %%ecx\n\t"
			 "jz 1f\n"
			 "1:\n\t"
			 "movl $5, %%ecx\n"
			 "2:\n\t"
			 "incq %0\n\t"
			 "loop 2b\n\t"
			 "jrcxz 3f\n\t"
			 "incq %0\n"
			 "3:\n\t"
			 "call 4f\n"
			 "4:\n\t"
			 "popq %%rax\n\t"
			 "movl %%cs, %%eax\n\t"
			 "pushq %%rax\n\t"
			 "leaq 5f(%%rip), %%rax\n\t"
			 "pushq %%rax\n\t"
			 "lretq\n"
			 "5:\n\t"
			 "incq %0"
			 : "+r"(n)
			 :
			 : "rax", "rcx", "memory", "cc");
	return n;
}

static void *step_in_thread(void *argument)
{
	usleep(200000); /* its creator, which may be stepped, has signals blocked at first */
	step_itself();
	return argument;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_trap };
	pthread_t thread;

	(void)argv;

	if (pushed_flags() & 0x100)
		return 1;
	if (load_ss(41) != 42)
		return 2;
	if (!strings())
		return 3;
	if (odd_branches() != 6)
		return 4;
	sigaction(SIGTRAP, &action, NULL);
	if (pushed_flags() & 0x100)
		return 5;
	/* With an argument, in a thread that may not be traced. */
	if (argc == 1)
		step_itself();
	else if (pthread_create(&thread, NULL, step_in_thread, NULL) || pthread_join(thread, NULL))
		return 6;
	/* One trap for each instruction from the one after POPF to the second POPF. */
	return traps == 6 ? 0 : 10 + traps;
}
