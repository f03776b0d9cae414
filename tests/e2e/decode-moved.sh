#!/bin/bash
# A snapshot that was moved decodes to the same bytes with any number of CPUs; without the binary it
# says which one is missing, with another one in its place that the build-id differs.
set -u
cd "$TMPDIR" || exit 1
status=0
check() {
	local id=$1
	shift
	if "$@"; then echo "PASS e2e/decode-moved/$id"; else echo "FAIL e2e/decode-moved/$id"; status=1; fi
}
decode() {
	"$BIN" decode --format text "$1" >"$2.txt" 2>"$2.err"
	echo $? >"$2.status"
}
mkdir bin && cp "$PROGRAMS/demo" bin/workers
snapshot=$("$BIN" -q -o out --full-execution --multi-thread --format text -- "$TMPDIR/bin/workers" 2>record.err | grep '^/') ||
	{ cat record.err; exit 1; }
decode "$snapshot" here
check works test "$(cat here.status)" = 0 -a -s here.txt -a ! -s here.err

mkdir elsewhere && cp -r "$snapshot" elsewhere/copy && rm -r "$snapshot"
decode elsewhere/copy moved
check moved cmp here.txt moved.txt
taskset -c 0 "$BIN" decode --format text elsewhere/copy >one.txt 2>one.err
check one-cpu cmp here.txt one.txt

mkdir -p root"$TMPDIR" && mv bin root"$TMPDIR"/bin
decode elsewhere/copy gone
check names-missing grep -q "$TMPDIR/bin/workers: no such file" gone.err
check missing-is-8 test "$(cat gone.status)" = 8
"$BIN" decode --symfs root --format text elsewhere/copy >symfs.txt 2>symfs.err
# Under the root only the program is there: its libraries are missing, but its own calls are named.
check symfs-has-program test -z "$(grep "$TMPDIR/bin/workers: " symfs.err)"
check symfs-names-libraries grep -q "libc.so.6: no such file" symfs.err

mkdir bin && cp "$PROGRAMS/calls" bin/workers
decode elsewhere/copy other
check names-different grep -q "$TMPDIR/bin/workers: build-id differs: file [0-9a-f]*, recorded [0-9a-f]*" other.err
exit $status
