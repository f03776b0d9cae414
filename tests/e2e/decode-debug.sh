#!/bin/bash
# Symbols of a stripped program come from its separate debug file, found by .gnu_debuglink (same
# directory, .debug/), or from .gnu_debugdata; never from a file of another build.
set -u
cd "$TMPDIR" || exit 1
status=0
dump=$O/tests/tools/object_dump
has() { "$dump" "$1" | grep -q "$2"; }
check() {
	local id=$1
	shift
	if "$@"; then echo "PASS e2e/decode-debug/$id"; else echo "FAIL e2e/decode-debug/$id"; status=1; fi
}
hasnt() { ! has "$@"; }

make_program() { # NAME RETURN-VALUE LINK-OPTION
	printf 'static __attribute__((noinline)) int hidden(int a) { return a + %s; }\nint main(int c, char **v) { (void)v; return hidden(c); }\n' "$2" >"$1.c"
	gcc -g -O1 "$3" "$1.c" -o "$1" && objcopy --only-keep-debug "$1" "$1.debug" &&
		objcopy --strip-all --add-gnu-debuglink="$1.debug" "$1" "$1.stripped"
}
make_program with-id 1 -Wl,--build-id || exit 1
make_program without-id 2 -Wl,--build-id=none || exit 1

for name in with-id without-id; do
	check "$name-same-directory" has $name.stripped ' hidden'
	mkdir -p .debug && mv $name.debug .debug/
	check "$name-dot-debug" has $name.stripped ' hidden'
	mv .debug/$name.debug away
	check "$name-none" hasnt $name.stripped ' hidden'
	mv away $name.debug
done
# Another build under the expected name: refused by build-id and by checksum.
make_program other 3 -Wl,--build-id || exit 1
cp other.debug with-id.debug
check other-build-id hasnt with-id.stripped ' hidden'
echo >>without-id.debug
check other-checksum hasnt without-id.stripped ' hidden'
: >with-id.debug
check empty hasnt with-id.stripped ' hidden'
rm with-id.debug && mkfifo with-id.debug
check fifo timeout 10 "$dump" with-id.stripped --quiet
rm with-id.debug

if command -v xz >/dev/null; then
	objcopy --strip-debug with-id mini && xz -k mini && objcopy --strip-all with-id bare &&
		objcopy --add-section .gnu_debugdata=mini.xz bare with-data
	check debugdata has with-data ' hidden'
	head -c 100 mini.xz >cut.xz && objcopy --add-section .gnu_debugdata=cut.xz bare with-cut-data
	check debugdata-cut hasnt with-cut-data ' hidden'
	head -c 500M /dev/zero | xz -0 >bomb.xz &&
		objcopy --strip-all --add-section .gnu_debugdata=bomb.xz with-id with-bomb
	limited() { (ulimit -v 400000 && has "$@"); }
	check debugdata-bomb limited with-bomb '@plt'
else
	echo "SKIP e2e/decode-debug/debugdata: no xz"
fi
exit $status
