// SPDX-License-Identifier: GPL-2.0-only
/* What dlopens loads. */
static volatile int zero;

__attribute__((noinline, noclone)) static int plugin_leaf(int n)
{
	return n * 2 + zero;
}

__attribute__((noinline, noclone)) int plugin_work(int n)
{
	int sum = 0;

	for (int i = 0; i < 4; i++)
		sum += plugin_leaf(n + i);
	return sum;
}
