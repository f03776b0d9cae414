#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
. "$(dirname "$0")/lib.sh"
fuzz_main decode -max_len=8192
