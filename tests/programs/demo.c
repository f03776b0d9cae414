// SPDX-License-Identifier: GPL-2.0-only
/*
 * A small server for `make demo`: four workers answer requests from a cache of routes. One request
 * of worker-2 asks for a route that is not there; the worker rebuilds the whole index under the
 * lock, everyone else waits, and log_slow_request() is called: the trigger.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define HOT __attribute__((noinline, noclone))
#define WORKERS 4
#define REQUESTS 6
#define ROUTES 48

struct route {
	char name[16];
	unsigned int hash;
	int target;
};

static struct route routes[ROUTES];
static int n_routes = ROUTES / 2;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t start;
static volatile unsigned int checksum;

HOT unsigned int hash_name(const char *name)
{
	unsigned int hash = 2166136261u;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return hash;
}

HOT int compare_routes(const void *a, const void *b)
{
	const struct route *x = a, *y = b;

	return (x->hash > y->hash) - (x->hash < y->hash);
}

HOT void add_route(int i)
{
	snprintf(routes[i].name, sizeof(routes[i].name), "/item/%d", i);
	routes[i].hash = hash_name(routes[i].name);
	routes[i].target = i;
}

HOT void rebuild_index(void)
{
	for (int i = n_routes; i < ROUTES; i++)
		add_route(i);
	n_routes = ROUTES;
	qsort(routes, (size_t)n_routes, sizeof(routes[0]), compare_routes);
}

HOT const struct route *find_route(unsigned int hash)
{
	const struct route key = { .hash = hash };

	return bsearch(&key, routes, (size_t)n_routes, sizeof(routes[0]), compare_routes);
}

HOT void log_slow_request(int worker, int request)
{
	checksum += (unsigned int)(worker * 100 + request);
}

HOT const struct route *cache_miss(unsigned int hash, int worker, int request)
{
	const struct route *route;

	pthread_rwlock_unlock(&lock);
	pthread_rwlock_wrlock(&lock);
	rebuild_index();
	route = find_route(hash);
	log_slow_request(worker, request);
	return route;
}

HOT const struct route *look_up(const char *name, int worker, int request)
{
	const unsigned int hash = hash_name(name);
	const struct route *route;

	pthread_rwlock_rdlock(&lock);
	route = find_route(hash);
	if (!route)
		route = cache_miss(hash, worker, request);
	pthread_rwlock_unlock(&lock);
	return route;
}

HOT void send_reply(const struct route *route)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "200 %s -> %d", route->name, route->target);

	for (int i = 0; i < n; i++)
		checksum += (unsigned char)text[i];
}

HOT void handle_request(int worker, int request)
{
	const int item = worker == 2 && request == 4 ? ROUTES - 5 : (worker * 5 + request) % 20;
	const struct route *route;
	char name[16];

	snprintf(name, sizeof(name), "/item/%d", item);
	route = look_up(name, worker, request);
	if (route)
		send_reply(route);
}

static void *serve(void *argument)
{
	const int worker = (int)(long)argument;
	char name[16];

	snprintf(name, sizeof(name), "worker-%d", worker);
	prctl(PR_SET_NAME, name);
	pthread_barrier_wait(&start);
	for (int request = 0; request < REQUESTS; request++) {
		handle_request(worker, request);
		usleep(500);
	}
	return NULL;
}

int main(void)
{
	pthread_t workers[WORKERS];

	for (int i = 0; i < n_routes; i++)
		add_route(i);
	qsort(routes, (size_t)n_routes, sizeof(routes[0]), compare_routes);
	pthread_barrier_init(&start, NULL, WORKERS);
	for (long i = 0; i < WORKERS; i++)
		pthread_create(&workers[i], NULL, serve, (void *)i);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	printf("served %d requests\n", WORKERS * REQUESTS);
	return 0;
}
