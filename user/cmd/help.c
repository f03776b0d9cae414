// SPDX-License-Identifier: GPL-2.0-only
/* The texts of --help; the options' part comes from their table. */
#include <string.h>

#include "base/mem.h"
#include "cmd/options_table.h"

#define WIDTH 24

static const struct {
	enum command command;
	const char *usage, *text, *examples;
} pages[] = {
	{ COMMAND_RECORD, "ptbpf [record] [OPTIONS] [-p PID[,PID...] | -- CMD [ARG...]]\n",
	  "Records what the threads do; when a trigger is reached, what they did up to there is\n"
	  "kept in a snapshot directory, decoded, and its path printed.\n",
	  "  ptbpf --trigger handle_request --multi-thread -- ./server\n"
	  "  ptbpf -t 'sym:libc.so!abort' -t __cxa_throw --format perfetto,text -- ./prog\n"
	  "  ptbpf -t 'sym:do_io,arg0>4096,after=100' -p $(pidof server)\n"
	  "\n"
	  "A trigger is KIND:SPEC[,CONDITION...]; a bare name means sym:\n"
	  "  sym:[OBJECT!]FUNC[+OFF]  function or offset, mangled or not, globs allowed\n"
	  "  addr:OBJECT+0xOFF        an address of an object\n"
	  "  manual, exit             Ctrl-C, the target's end\n"
	  "  conditions: argN OP VALUE (arg0 is the first), tid=, comm=, after=N, every=N,\n"
	  "  rate=N/TIME, sample=P\n"
	  "\n"
	  "Ctrl-C once: snapshot and finish. Twice: detach, no snapshot.\n" },
	{ COMMAND_DECODE, "ptbpf decode [OPTIONS] SNAPSHOT|PERF.DATA\n",
	  "Decodes a snapshot again. text and json go to stdout, other formats next to the\n"
	  "snapshot; with --output DIR all go there.\n",
	  "  ptbpf decode --format text --from -50us prog-20250102-030405-1\n"
	  "  ptbpf decode --format json --thread 4711 prog-20250102-030405-1 | jq .\n" },
	{ COMMAND_PLAN, "ptbpf plan [OPTIONS] [-p PID[,PID...] | -- CMD [ARG...]]\n",
	  "Says what record would attach and allocate, and changes nothing.\n",
	  "  ptbpf plan --trigger handle_request --multi-thread --buffer 64M -p 4711\n" },
	{ COMMAND_DOCTOR, "ptbpf doctor [--json]\n",
	  "Tries what ptbpf needs on this machine; says what works, what does not, and the remedy.\n"
	  "Exit code 0: recording works; 3: it does not.\n",
	  "  ptbpf doctor\n"
	  "  sudo ptbpf doctor --json\n" },
};

static void print_options(FILE *out, enum command command)
{
	fputs("\nOptions:\n", out);
	for (const struct option_spec *spec = option_table; spec->name; spec++) {
		char left[64];

		if (!spec->help || !(spec->commands & command))
			continue;
		snprintf(left, sizeof(left), "%c%c%c --%s%s%s", spec->letter ? '-' : ' ',
			 spec->letter ? spec->letter : ' ', spec->letter ? ',' : ' ', spec->name,
			 spec->arg ? " " : "", spec->arg ? spec->arg : "");
		if (strlen(left) > WIDTH)
			fprintf(out, "  %s\n  %*s  %s\n", left, WIDTH, "", spec->help);
		else
			fprintf(out, "  %-*s  %s\n", WIDTH, left, spec->help);
	}
}

static void print_general(FILE *out)
{
	fputs("ptbpf records what every thread of a program did in the moments before something\n"
	      "happened: Intel PT (or a software tracer) under the control of BPF.\n"
	      "\n"
	      "  ptbpf [record] [OPTIONS] [-p PID | -- CMD [ARG...]]   record and decode\n"
	      "  ptbpf decode [OPTIONS] SNAPSHOT                       decode again\n"
	      "  ptbpf plan [OPTIONS] [-p PID | -- CMD]                what record would do\n"
	      "  ptbpf doctor [--json]                                 what works here\n"
	      "  ptbpf help COMMAND                                    all about one of these\n"
	      "\n"
	      "Examples:\n"
	      "  ptbpf --trigger handle_request --multi-thread -- ./server\n"
	      "  ptbpf -t __cxa_throw --format perfetto,text -- ./prog\n"
	      "  ptbpf -t do_io -p $(pidof server)\n"
	      "\n"
	      "Often used: -t SPEC, --multi-thread, --buffer SIZE, -o DIR, --format LIST,\n"
	      "--full-execution, --follow-forks. Long options work with one dash as well.\n"
	      "\n"
	      "Exit codes: 0 done, 1 failed, 2 usage, 3 not supported here, 4 permission,\n"
	      "5 target or symbol not found, 6 resource limit, 7 ended without a fire,\n"
	      "8 decoded with gaps caused by errors (decode)\n",
	      out);
}

void options_print_help(FILE *out, enum command command)
{
	for (size_t i = 0; i < ARRAY_SIZE(pages); i++) {
		if (pages[i].command != command)
			continue;
		fprintf(out, "%s\n%s", pages[i].usage, pages[i].text);
		print_options(out, command);
		fprintf(out, "\nExamples:\n%s", pages[i].examples);
		return;
	}
	print_general(out);
}
