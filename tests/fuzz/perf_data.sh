#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
. "$(dirname "$0")/lib.sh"
fuzz_main perf_data -max_len=65536
