// SPDX-License-Identifier: GPL-2.0-only
/*
 * Code made at run time: written, made executable, called back into this program; rewritten in
 * place on an RWX page (only with the argument "rewrite"); a page mapped, run and unmapped again.
 * flags: -static
 */
#include <stdio.h>
#include <sys/mman.h>

#include "truth.h"

static volatile int zero;
typedef long (*made_fn)(long, long (*)(long));

NOINLINE static long called_back(long n)
{
	TRUTH(called_back);
	return n + zero;
}

/* push rbx; lea rbx, [rdi + add]; mov rdi, rbx; call rsi; add rax, rbx; pop rbx; ret */
static size_t emit(unsigned char *at, unsigned char add)
{
	const unsigned char code[] = { 0x53, 0x48, 0x8d, 0x5f, add,  0x48, 0x89, 0xdf,
				       0xff, 0xd6, 0x48, 0x01, 0xd8, 0x5b, 0xc3 };

	memcpy(at, code, sizeof(code));
	return sizeof(code);
}

NOINLINE static long call_made(void *page, long n)
{
	TRUTH(call_made);
	return ((made_fn)page)(n, called_back) + zero;
}

NOINLINE static int protected_page(int n)
{
	TRUTH(protected_page);
	unsigned char *page =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long sum = 0;

	emit(page, (unsigned char)n);
	if (mprotect(page, 4096, PROT_READ | PROT_EXEC))
		return 0;
	for (int i = 0; i < 3; i++)
		sum += call_made(page, i);
	munmap(page, 4096);
	return sum == 3 * n + 2 * 3 + 3 * n;
}

NOINLINE static int rewritten_page(void)
{
	TRUTH(rewritten_page);
	unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long sum = 0;

	for (int i = 0; i < 6; i++) {
		emit(page, (unsigned char)(i + 1));
		sum += call_made(page, 0);
	}
	munmap(page, 4096);
	return sum == 2 * 21;
}

int main(int argc, char **argv)
{
	int ok = 1;

	truth_begin();
	for (int i = 1; i < 4; i++)
		ok &= protected_page(i);
	if (argc > 1 && !strcmp(argv[1], "rewrite"))
		ok &= rewritten_page();
	truth_write();
	return !ok;
}
