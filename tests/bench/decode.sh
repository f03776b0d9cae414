#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Speed of decoding to branch events on one CPU: a hot loop's worth of code, and more than caches hold.
set -eu
O=${O:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for insns in 2000 200000; do
	"$O/tests/tools/decode_walk" $insns "${BENCH_BYTES:-8000000}" "$work/code" "$work/trace"
	printf 'decode, %6d instructions of code: ' $insns
	taskset -c "${BENCH_CPU:-0}" "$O/tests/tools/decode_raw" --bench \
		--map "$work/code:0:0:7f0000401000" "$work/trace" 2>/dev/null
done
