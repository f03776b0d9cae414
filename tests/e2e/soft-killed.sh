#!/bin/bash
# A target that is killed at any moment leaves rings that decode, every stepped instruction of them;
# so does one that leaves by exit_group() while other threads are being stepped.
set -u
rec=$O/tests/tools/softrec
check=$O/tests/tools/softcheck
bad=0

for i in 1 2 3 4 5 6; do
	mode=$([ $((i % 2)) = 0 ] && echo block || echo insn)
	dir=$TMPDIR/killed-$i
	mkdir -p "$dir"
	"$rec" --quiet --step $mode --multi-thread --insns "$dir" "$dir" -- "$PROGRAMS/soft_busy" \
		"$dir/progress" 3 >"$dir/out" 2>&1 </dev/null &
	pid=$!
	ok=1
	if [ $i -le 4 ]; then
		sleep 1.$((RANDOM % 10))
		target=$(pgrep -f "^$PROGRAMS/soft_busy $dir/progress")
		kill -9 $target
		wait $pid
		grep -q "^status 0x9," "$dir/out" || ok=0
	else
		wait $pid || ok=0
	fi
	"$check" "$dir" >"$dir/check" || ok=0
	if [ $ok = 1 ]; then
		echo "PASS e2e/soft-killed/$i-$mode"
	else
		echo "FAIL e2e/soft-killed/$i-$mode"
		cat "$dir/out"
		grep -v " 0 errors" "$dir/check" | head
		bad=1
	fi
done
exit $bad
