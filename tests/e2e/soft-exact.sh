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
	for mode in ${modes:-verify block}; do
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

modes="insn verify block" exact true -- /bin/true
exact calls -- "$PROGRAMS/calls"
exact signals -- "$PROGRAMS/signals"
exact sigtraps --multi-thread -- "$PROGRAMS/sigtraps"
exact flags -- "$PROGRAMS/soft_flags"
exact flags-untraced -- "$PROGRAMS/soft_flags" thread
exact affinity --multi-thread -- "$PROGRAMS/soft_affinity"
exact stops -- "$PROGRAMS/soft_stops"
exact rseq -- "$PROGRAMS/soft_rseq"
exact dlopens -- "$PROGRAMS/dlopens"
exact workers --multi-thread -- "$PROGRAMS/workers" 20 2
exact thread-exec --multi-thread -- "$PROGRAMS/processes" thread-exec
exact spawn --follow-forks -- "$PROGRAMS/processes" spawn
exact daemon -- "$PROGRAMS/processes" daemon
exact rings-taken-and-given --multi-thread --cycle-ms 5 -- "$PROGRAMS/workers" 5 2
same_bytes same-true /bin/true
same_bytes same-fixed "$PROGRAMS/fixed"
same_bytes same-signals "$PROGRAMS/signals"
exit $bad
