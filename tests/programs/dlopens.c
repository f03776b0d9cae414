// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlopens [N]: loads plugin.so beside it N times (default 2), calls plugin_work() and unloads it.
 */
#include <dlfcn.h>
#include <stdio.h>

#include "truth.h"

static volatile int zero;

NOINLINE static int before_load(int n)
{
	TRUTH(before_load);
	return n + zero;
}

NOINLINE static int use_plugin(int (*work)(int), int n)
{
	TRUTH(use_plugin);
	return work(n) + zero;
}

int main(int argc, char **argv)
{
	const int rounds = argc > 1 ? atoi(argv[1]) : 2;
	char path[4096];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 16);
	char *slash;

	truth_begin();
	if (len <= 0)
		return 1;
	path[len] = 0;
	slash = strrchr(path, '/');
	strcpy(slash + 1, "plugin.so");
	for (int i = 0; i < rounds; i++) {
		void *handle;
		void *work;

		before_load(i);
		handle = dlopen(path, RTLD_NOW);
		work = handle ? dlsym(handle, "plugin_work") : NULL;
		if (!work) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		use_plugin((int (*)(int))work, i);
		dlclose(handle);
	}
	truth_write();
	return 0;
}
