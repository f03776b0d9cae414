// SPDX-License-Identifier: GPL-2.0-only
/*
 * softcheck DIR: decodes what softrec wrote with libipt and compares, per thread, the decoded
 * instructions with the stepped ones (DIR/TID.insns, where there): every one, in order. Any decode
 * error is a failure; so is a trace without instructions. Code is found by DIR/TID.maps, or that of
 * the pid named as the second argument, or the first maps file that is there.
 *
 * links: base/log
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <intel-pt.h>

struct bytes {
	uint8_t *data;
	size_t size;
};

static struct bytes slurp(const char *path)
{
	struct bytes bytes = { NULL, 0 };
	FILE *file = fopen(path, "re");
	long size;

	if (!file)
		return bytes;
	fseek(file, 0, SEEK_END);
	size = ftell(file);
	rewind(file);
	bytes.data = malloc((size_t)size + 1);
	bytes.size = fread(bytes.data, 1, (size_t)size, file);
	fclose(file);
	return bytes;
}

static void add_maps(struct pt_image *image, const char *dir, int pid)
{
	char path[600], line[4600];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%d.maps", dir, pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		uint64_t start, end, offset, inode;
		int at = 0, err;

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %" SCNu64 " %n",
			   &start, &end, &offset, &inode, &at) < 4)
			continue;
		line[strcspn(line, "\n")] = 0;
		snprintf(path, sizeof(path), "%s/%d.vdso", dir, pid);
		if (strcmp(line + at, "[vdso]") == 0)
			offset = 0;
		else if (inode)
			snprintf(path, sizeof(path), "%.590s", line + at);
		else
			continue;
		err = pt_image_add_file(image, path, offset, end - start, NULL, start);
		if (err < 0)
			printf("%s: %s\n", path, pt_errstr(pt_errcode(err)));
	}
	if (file)
		fclose(file);
}

struct check {
	struct pt_insn_decoder *decoder;
	const uint64_t *expected;
	size_t n_expected, at;
	uint64_t errors, gaps;
	int tid;
};

static void mismatch(struct check *check, uint64_t ip)
{
	uint64_t offset = 0;

	pt_insn_get_offset(check->decoder, &offset);
	if (check->errors++ < 5)
		printf("tid %d: instruction %zu: decoded %#" PRIx64 ", stepped %#" PRIx64
		       ", trace offset %#" PRIx64 "\n",
		       check->tid, check->at, ip,
		       check->at < check->n_expected ? check->expected[check->at] : 0, offset);
}

static void decode_error(struct check *check, int err, uint64_t ip)
{
	uint64_t offset = 0;

	pt_insn_get_offset(check->decoder, &offset);
	if (check->errors++ < 5)
		printf("tid %d: %s at trace offset %#" PRIx64 ", ip %#" PRIx64
		       ", instruction %zu (stepped %#" PRIx64 ")\n",
		       check->tid, pt_errstr(pt_errcode(err)), offset, ip, check->at,
		       check->at < check->n_expected ? check->expected[check->at] : 0);
}

static int drain_events(struct check *check, int status)
{
	struct pt_event event;

	while (status >= 0 && status & pts_event_pending) {
		status = pt_insn_event(check->decoder, &event, sizeof(event));
		if (status >= 0 && event.type == ptev_overflow)
			check->gaps++;
	}
	return status;
}

/* From a PSB to the end or the first error. */
static void decode_from_sync(struct check *check)
{
	for (;;) {
		struct pt_insn insn = { 0 };
		int status = drain_events(check, 0);

		status = pt_insn_next(check->decoder, &insn, sizeof(insn));
		if (status == -pte_event_ignored || status == -pte_eos)
			return;
		if (status < 0) {
			if (!insn.ip)
				pt_insn_time(check->decoder, &insn.ip, NULL, NULL);
			decode_error(check, status, insn.ip);
			return;
		}
		if (check->n_expected &&
		    (check->at >= check->n_expected || check->expected[check->at] != insn.ip))
			mismatch(check, insn.ip);
		check->at++;
		if (check->errors > 5)
			return;
		if (drain_events(check, status) < 0)
			return;
	}
}

static bool check_thread(const char *dir, int tid, int pid, size_t *total)
{
	struct pt_image *image = pt_image_alloc("target");
	struct check check = { .tid = tid };
	struct pt_config config;
	struct bytes trace, insns;
	char path[600];
	int status;

	/* A process's main thread has mappings under its own number. */
	snprintf(path, sizeof(path), "%s/%d.maps", dir, tid);
	add_maps(image, dir, access(path, R_OK) ? pid : tid);
	snprintf(path, sizeof(path), "%s/%d.pt", dir, tid);
	trace = slurp(path);
	snprintf(path, sizeof(path), "%s/%d.insns", dir, tid);
	insns = slurp(path);
	check.expected = (const uint64_t *)insns.data;
	check.n_expected = insns.size / sizeof(uint64_t);
	pt_config_init(&config);
	config.begin = trace.data;
	config.end = trace.data + trace.size;
	config.flags.variant.insn.enable_tick_events = 0;
	check.decoder = pt_insn_alloc_decoder(&config);
	pt_insn_set_image(check.decoder, image);
	/* Contiguous trace: after the first synchronisation nothing may need another. */
	status = pt_insn_sync_forward(check.decoder);
	while (status >= 0) {
		status = drain_events(&check, status);
		if (status >= 0 || status == -pte_eos)
			decode_from_sync(&check);
		else
			decode_error(&check, status, 0);
		status = pt_insn_sync_forward(check.decoder);
	}
	if (check.n_expected && check.at != check.n_expected) {
		check.errors++;
		printf("tid %d: %zu of %zu instructions decoded\n", tid, check.at,
		       check.n_expected);
	}
	printf("tid %d: %zu instructions decoded, %zu stepped, %" PRIu64 " errors, %" PRIu64
	       " overflows, %zu bytes\n",
	       tid, check.at, check.n_expected, check.errors, check.gaps, trace.size);
	pt_insn_free_decoder(check.decoder);
	pt_image_free(image);
	free(trace.data);
	free(insns.data);
	*total += check.at;
	return !check.errors;
}

int main(int argc, char **argv)
{
	const struct dirent *entry;
	int pid = argc > 2 ? atoi(argv[2]) : 0;
	size_t total = 0;
	bool ok = true;
	DIR *dir;

	if (argc < 2)
		return 2;
	dir = opendir(argv[1]);
	if (!dir)
		return 2;
	while (!pid && (entry = readdir(dir))) {
		if (strstr(entry->d_name, ".maps"))
			pid = atoi(entry->d_name);
	}
	rewinddir(dir);
	while ((entry = readdir(dir))) {
		if (!strstr(entry->d_name, ".pt"))
			continue;
		ok &= check_thread(argv[1], atoi(entry->d_name), pid, &total);
	}
	closedir(dir);
	return ok && total ? 0 : 1;
}
