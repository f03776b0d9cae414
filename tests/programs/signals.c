// SPDX-License-Identifier: GPL-2.0-only
/*
 * Handlers: one nested in another, on an alternate stack, left by siglongjmp, delivered on unmask,
 * after a fault (SIGSEGV repaired by the handler), and a blocked one.
 * flags: -static
 */
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include "truth.h"

static volatile int zero, handled;
static sigjmp_buf back;
static char *guarded;

NOINLINE static int leaf(int n)
{
	TRUTH(leaf);
	return n + zero;
}

NOINLINE static void on_inner(int sig)
{
	TRUTH(on_inner);
	handled += leaf(sig);
}

NOINLINE static void on_outer(int sig)
{
	TRUTH(on_outer);
	handled += leaf(sig);
	raise(SIGUSR2);
	handled += leaf(sig);
}

NOINLINE static void on_jump(int sig)
{
	TRUTH(on_jump);
	handled += leaf(sig);
	siglongjmp(back, 1);
}

NOINLINE static void on_fault(int sig, siginfo_t *info, void *context)
{
	TRUTH(on_fault);
	(void)context;
	if (info->si_addr != guarded)
		_exit(3);
	handled += leaf(sig);
	if (mprotect(guarded, 4096, PROT_READ | PROT_WRITE))
		_exit(4);
}

NOINLINE static void handle(int sig, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	sigaction(sig, &action, NULL);
}

NOINLINE static void nested(void)
{
	TRUTH(nested);
	raise(SIGUSR1);
	leaf(1);
}

NOINLINE static void jumped(void)
{
	TRUTH(jumped);
	if (!sigsetjmp(back, 1))
		raise(SIGHUP);
	TRUTH_BACK_IN(jumped);
	leaf(2);
}

NOINLINE static void unmasked(void)
{
	TRUTH(unmasked);
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR2);
	leaf(3);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	leaf(4);
}

NOINLINE static void faulted(void)
{
	TRUTH(faulted);
	guarded[0] = 1;
	leaf(5);
}

NOINLINE static void on_stack(void)
{
	TRUTH(on_stack);
	static char stack[65536];
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };

	sigaltstack(&alternate, NULL);
	raise(SIGWINCH);
}

int main(void)
{
	struct sigaction fault = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	truth_begin();
	guarded = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	handle(SIGUSR1, on_outer, 0);
	handle(SIGUSR2, on_inner, 0);
	handle(SIGHUP, on_jump, 0);
	handle(SIGWINCH, on_inner, SA_ONSTACK);
	sigaction(SIGSEGV, &fault, NULL);
	for (int i = 0; i < 3; i++) {
		nested();
		jumped();
		unmasked();
		on_stack();
	}
	faulted();
	truth_write();
	return handled == zero;
}
