// SPDX-License-Identifier: GPL-2.0-only
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/exit_code.h"
#include "base/log.h"
#include "cmd/commands.h"

static enum exit_code run(const struct options *options)
{
	switch (options->command) {
	case COMMAND_RECORD:
		return cmd_record(options);
	case COMMAND_DECODE:
		return cmd_decode(options);
	case COMMAND_PLAN:
		return cmd_plan(options);
	case COMMAND_DOCTOR:
		return cmd_doctor(options);
	case COMMAND_HELP:
		options_print_help(stdout, options->help_for);
		break;
	case COMMAND_VERSION:
		printf("ptbpf %s\n", PTBPF_VERSION);
		break;
	}
	if (!fflush(stdout))
		return EXIT_DONE;
	log_err("write to stdout: %m");
	return EXIT_FAILED;
}

/*
 * Where we were started without one of the three, files of ours must not take its place. The
 * command finds it closed, as it would without us.
 */
static void hold_standard_fds(void)
{
	for (int fd = 0; fd < 3; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
			return;
	}
}

int main(int argc, char **argv)
{
	struct options options;
	enum exit_code code = EXIT_USAGE;

	hold_standard_fds();
	if (!options_parse(argc, argv, &options)) {
		log_set_level(options.verbosity < 0 ? LOG_ERROR :
			      options.verbosity     ? LOG_DEBUG :
						      LOG_INFO);
		code = run(&options);
	}
	options_fini(&options);
	return code;
}
