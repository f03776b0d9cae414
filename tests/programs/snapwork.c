// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a snapshot has to describe, in few instructions: calls, recursion, system calls, code mapped
 * while it runs, code that no file holds, the vdso. Static, so that little runs before main().
 *
 * flags: -static -fcf-protection=none
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* No relocation, no data: runs wherever it is mapped. */
__attribute__((noinline, aligned(64))) int leaf(int x)
{
	for (int i = 0; i < 3; i++)
		x = x & 1 ? 3 * x + 1 : x / 2;
	return x;
}

__attribute__((noinline)) int fibonacci(int n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static int call_mapped_file(void)
{
	const long page = 4096, in_page = (long)leaf & (page - 1);
	extern char __executable_start[];
	const off_t offset = ((long)leaf - (long)__executable_start) & ~(page - 1);
	const int fd = open("/proc/self/exe", O_RDONLY);
	char *code = mmap(NULL, 2 * page, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, offset);
	int (*again)(int) = (int (*)(int))(code + in_page);

	close(fd);
	return code == MAP_FAILED ? -1 : again(7);
}

static int call_generated(void)
{
	/* mov $10,%ecx; 1: add %ecx,%eax; dec %ecx; jnz 1b; ret */
	static const unsigned char bytes[] = { 0xb9, 10,   0,    0,    0,    0x01,
					       0xc8, 0xff, 0xc9, 0x75, 0xfa, 0xc3 };
	char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (code == MAP_FAILED)
		return -1;
	memcpy(code, bytes, sizeof(bytes));
	if (mprotect(code, 4096, PROT_READ | PROT_EXEC))
		return -1;
	return ((int (*)(void))code)() != 0;
}

int main(void)
{
	struct timespec ts;
	int sum = fibonacci(9) + leaf(27);

	for (int i = 0; i < 3; i++) {
		sum += call_mapped_file();
		sum += call_generated();
		clock_gettime(CLOCK_MONOTONIC, &ts);
		sum += fibonacci(4 + i);
	}
	return sum == 0 || ts.tv_sec < 0;
}
