# SPDX-License-Identifier: GPL-2.0-only
# Sourced by tests/fuzz/NAME.sh, whose whole body is then: fuzz_main NAME
#
# tests/fuzz/NAME.c holds LLVMFuzzerTestOneInput() and names in ` * links: room/file` lines, as unit
# tests do, what of user/ it is built with: with clang, libFuzzer, ASan and UBSan, into $O/fuzz.
# tests/fuzz/corpus/NAME/ holds the kept inputs: all are run first, then new ones for FUZZ_SECONDS.
# An input that fails stays in $O/fuzz/NAME.failed/; once fixed, add it to the corpus.
set -u
O=${O:-build}
CLANG=${CLANG:-clang}
FUZZ_SECONDS=${FUZZ_SECONDS:-10}
FUZZ_SEED=${FUZZ_SEED:-1} # 0: another one each time
ROOT=${ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
TMPDIR=${TMPDIR:-/tmp}
FUZZ_LIBS=${FUZZ_LIBS:--lelf -ldw -lipt -lZydis -ljson-c -liberty -llzma -lz -lm -lpthread}

fuzz_build() {
	local name=$1 link sources=()
	local binary=$O/fuzz/$name
	for link in $(sed -n 's|^ \* links: *||p' "$ROOT/tests/fuzz/$name.c"); do
		sources+=("$ROOT/user/$link.c")
	done
	mkdir -p "$O/fuzz"
	if [ -x "$binary" ] && [ -z "$(find "$ROOT/user" "$ROOT/tests/fuzz" -name '*.[ch]' -newer "$binary")" ]; then
		return 0
	fi
	# An empty vec is NULL + 0 to vec_for_each, which clang 14 minds and C2y allows.
	"$CLANG" -std=gnu11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DPTBPF_VERSION='"fuzz"' -I"$ROOT/user" \
		-g -O1 -fno-omit-frame-pointer -fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=undefined -fno-sanitize=pointer-overflow "$ROOT/tests/fuzz/$name.c" "${sources[@]}" $FUZZ_LIBS \
		-o "$binary.new" && mv "$binary.new" "$binary"
}

# Further arguments go to the fuzzer.
fuzz_main() {
	local name=$1 corpus=$ROOT/tests/fuzz/corpus/$1 failed=$O/fuzz/$1.failed
	shift
	fuzz_build "$name" || { echo "FAIL fuzz/$name: does not build"; exit 1; }
	work=$(mktemp -d "$TMPDIR/fuzz.XXXXXX") || exit 1
	trap 'rm -rf "$work"' EXIT
	mkdir -p "$failed"
	"$O/fuzz/$name" -max_total_time="$FUZZ_SECONDS" -seed="$FUZZ_SEED" -timeout=20 -rss_limit_mb=2048 \
		-malloc_limit_mb=512 -artifact_prefix="$failed/" -print_final_stats=1 "$@" \
		"$work" "$corpus"
}
