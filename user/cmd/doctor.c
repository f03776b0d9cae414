// SPDX-License-Identifier: GPL-2.0-only
/* ptbpf doctor: tries what a recording needs, and says what works, what not, and the remedy. */
#include "cmd/doctor.h"

#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "cmd/commands.h"

static const struct {
	const char *id;
	doctor_check_fn check;
} checks[] = {
	{ "ptrace", doctor_ptrace },     { "debug-registers", doctor_debug_registers },
	{ "attach", doctor_attach },     { "bpf", doctor_bpf },
	{ "uprobe", doctor_uprobe },     { "btf", doctor_btf },
	{ "intel-pt", doctor_intel_pt }, { "perf-paranoid", doctor_paranoid },
	{ "tracefs", doctor_tracefs },   { "ring", doctor_ring },
	{ "memory", doctor_memory },     { "memlock", doctor_memlock },
	{ "disk", doctor_disk },         { "clock", doctor_clock },
	{ "libipt", doctor_libipt },
};

static const char *const status_names[] = { "pass", "warn", "fail" };

void doctor_report(struct doctor_finding *finding, enum doctor_status status, const char *meaning,
		   const char *remedy, const char *fmt, ...)
{
	va_list args;

	finding->status = status;
	finding->meaning = meaning;
	finding->remedy = remedy;
	va_start(args, fmt);
	vsnprintf(finding->found, sizeof(finding->found), fmt, args);
	va_end(args);
}

static void print_table(const struct doctor_finding *findings, bool works)
{
	struct utsname uts;

	if (!uname(&uts))
		printf("ptbpf %s on %s %s, as %s\n\n", PTBPF_VERSION, uts.sysname, uts.release,
		       geteuid() ? "an ordinary user" : "root");
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		printf("  %-4s  %-15s  %s\n", status_names[findings[i].status], checks[i].id,
		       findings[i].found);
		if (findings[i].status == DOCTOR_PASS)
			continue;
		if (*findings[i].meaning)
			printf("%25smeaning: %s\n", "", findings[i].meaning);
		if (*findings[i].remedy)
			printf("%25sremedy:  %s\n", "", findings[i].remedy);
	}
	printf("\n%s\n", works ? "Recording works here." :
				 "Recording does not work here; see what failed above.");
}

static int print_json(const struct doctor_finding *findings, bool works)
{
	struct json_object *root = json_object_new_object(), *list = json_object_new_array();

	json_object_object_add(root, "version", json_object_new_int(1));
	json_object_object_add(root, "ptbpf", json_object_new_string(PTBPF_VERSION));
	json_object_object_add(root, "privileged", json_object_new_boolean(!geteuid()));
	json_object_object_add(root, "works", json_object_new_boolean(works));
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		const struct doctor_finding *finding = &findings[i];
		struct json_object *item = json_object_new_object();

		json_object_object_add(item, "id", json_object_new_string(checks[i].id));
		json_object_object_add(item, "status",
				       json_object_new_string(status_names[finding->status]));
		json_object_object_add(item, "found", json_object_new_string(finding->found));
		json_object_object_add(item, "meaning", json_object_new_string(finding->meaning));
		json_object_object_add(item, "remedy", json_object_new_string(finding->remedy));
		json_object_array_add(list, item);
	}
	json_object_object_add(root, "checks", list);
	puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY |
							  JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(root);
	return 0;
}

enum exit_code cmd_doctor(const struct options *options)
{
	struct doctor_finding findings[ARRAY_SIZE(checks)] = { 0 };
	bool works = true;

	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		checks[i].check(&findings[i]);
		works &= findings[i].status != DOCTOR_FAIL;
	}
	if (options->json)
		print_json(findings, works);
	else
		print_table(findings, works);
	if (fflush(stdout)) {
		log_err("write to stdout: %m");
		return EXIT_FAILED;
	}
	return works ? EXIT_DONE : EXIT_UNSUPPORTED;
}
