// SPDX-License-Identifier: GPL-2.0-only
#include "base/exit_code.h"
#include "base/log.h"

int main(void)
{
	log_err("no command is built yet");
	return EXIT_UNSUPPORTED;
}
