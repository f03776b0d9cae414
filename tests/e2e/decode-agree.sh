#!/bin/bash
# Real recordings: branch events and libipt's instruction decoder tell the same execution, without a
# gap that comes from an error.
set -u
cd "$TMPDIR" || exit 1
status=0
for program in calls dlopens signals longjmps coroutines tailcalls workers; do
	snapshot=$("$BIN" -q -o out --full-execution --multi-thread --buffer 64M -- "$PROGRAMS/$program" 2>record.err | grep '^/')
	if [ -n "$snapshot" ] && "$O/tests/tools/decode_check" "$snapshot/perf.data" "$snapshot" >check.out &&
		! grep -E ' (overflow|lost|no-image|bad-packet|mismatch)' check.out && grep -q instructions check.out; then
		echo "PASS e2e/decode-agree/$program"
	else
		cat record.err check.out
		echo "FAIL e2e/decode-agree/$program"
		status=1
	fi
	rm -rf out
done
exit $status
