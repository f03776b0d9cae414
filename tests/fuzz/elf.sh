#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
. "$(dirname "$0")/lib.sh"
fuzz_main elf -max_len=32768
