#!/bin/bash
# What the software tracer writes decodes, instruction by instruction, to what was stepped; and
# block stepping writes the same bytes as single-stepping where nothing depends on time.
set -u
rec=$O/tests/tools/softrec
check=$O/tests/tools/softcheck
bad=0

# run NAME MODE [OPTIONS] -- COMMAND: records into $TMPDIR/NAME-MODE
run() {
	local name=$1 mode=$2 dir=$TMPDIR/$1-$2 options=()
	shift 2
	while [ "$1" != -- ]; do options+=("$1"); shift; done
	shift
	mkdir -p "$dir"
	timeout 200 "$rec" --quiet --step "$mode" "${options[@]}" --insns "$dir" "$dir" -- "$@" \
		>"$dir/out" 2>"$dir/err" </dev/null
	local status=$?
	if [ $status -ne "${want:-0}" ]; then
		echo "$name $mode: exit $status, not ${want:-0}"
		tail -n 5 "$dir/out" "$dir/err"
		return 1
	fi
	if ! "$check" "$dir" >"$dir/check"; then
		tail -n 5 "$dir/check"
		return 1
	fi
}

exact() {
	local name=$1 ok=1
	shift
	for mode in insn verify block; do
		run "$name" $mode "$@" || ok=0
	done
	[ $ok = 1 ] && echo "PASS e2e/soft-exact/$name" || { echo "FAIL e2e/soft-exact/$name"; bad=1; }
}

same_bytes() {
	local name=$1 ok=1
	shift
	run "$name" insn --step-clock --no-aslr -- "$@" || ok=0
	run "$name" block --step-clock --no-aslr -- "$@" || ok=0
	cmp "$TMPDIR/$name-insn"/*.pt "$TMPDIR/$name-block"/*.pt || ok=0
	[ $ok = 1 ] && echo "PASS e2e/soft-exact/$name" || { echo "FAIL e2e/soft-exact/$name"; bad=1; }
}

exact true -- /bin/true
exact calls -- "$PROGRAMS/calls"
same_bytes same-true /bin/true
same_bytes same-fixed "$PROGRAMS/fixed"
exit $bad
