#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The software tracer's steps, encoding to a ring, beside a bare PTRACE_SINGLESTEP loop, in one run
# pinned to one CPU. Fails when block mode is not 4 times as fast as the bare loop, or a step of
# insn mode costs more than 1.25 of the bare loop's.
set -u
O=${O:-build}
cpu=${BENCH_CPU:-1}
seconds=${BENCH_SECONDS:-6}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

cat >"$work/loop.py" <<'PY'
import json, os, re, signal, sys
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
data = [{"id": i, "name": "user%d" % i, "tags": ["a%d" % (i % 7), "b%d" % (i % 11)]} for i in range(200)]
pattern = re.compile(r'"name": "user(\d+)", "tags": \["(\w+)",')
open(sys.argv[1], "w").close()
os.kill(os.getpid(), signal.SIGUSR1)
while True:
    text = json.dumps(data)
    back = json.loads(text)
    n = sum(int(m.group(1)) for m in pattern.finditer(text))
    back.sort(key=lambda x: (x["tags"][0], -x["id"]))
PY
awk 'BEGIN { srand(3); for (i = 0; i < 40000; i++) printf "%d line %d\n", rand() * 1e6, i }' >"$work/lines"
for i in $(seq 1 400); do
	echo "int f$i(int a,int b){int s=0;for(int i=0;i<a;i++){if((i^b)&$i)s+=i*$i;else s-=b;"
	echo "switch(s&7){case 0:s+=3;break;case 3:s^=$i;break;case 5:s=s*3+a;}}return s;}"
done >"$work/many.c"

# Kills the traced program after a while, so that its recorder reports and ends.
kill_target_of() {
	sleep "$2"
	local pid
	for pid in $(pgrep -P "$1"); do # the stepper
		pkill -KILL -P "$pid"
	done
}

# softrec STEP CMD...: the report line
softrec() {
	local step=$1 recorder attach=
	shift
	[ "$1" = -p ] && attach="-p $2"
	# shellcheck disable=SC2086
	taskset -c "$cpu" "$O/tests/tools/softrec" --quiet --ring 4M --step "$step" $attach \
		"$work/out" "$@" >"$work/report" 2>"$work/errors" &
	recorder=$!
	if [ "$1" = -p ]; then
		(sleep "$seconds"; kill -9 "$2") &
	else
		kill_target_of $recorder "$seconds" &
	fi
	wait $recorder
	wait
	rm -rf "$work/out"
	grep -a '^status' "$work/report" || cat "$work/errors" "$work/report" >&2
}

bare() {
	taskset -c "$cpu" "$O/tests/tools/stepbench" bare -s "$seconds" "$@" |
		sed -n 's/^bare: .* stops (\([0-9.]*\) us.*/\1/p'
}

# line NAME STEP BARE_US REPORT
line() {
	awk -v name="$1" -v step="$2" -v bare="$3" '
		{ gsub(",", "")
		  for (i = 2; i <= NF; i++) {
			if ($i == "instructions") insns = $(i - 1)
			if ($i == "stops") stops = $(i - 1)
			if ($i == "us") us = $(i - 1)
			if ($i == "branches") branches = $(i - 1)
			if ($i == "disagreements") wrong = $(i - 1)
		  }
		  if (!insns || us <= 0) { print "no report"; exit 1 }
		  printf "%-8s %-6s %9.0f instructions/s %7.3f us each, %6.2f times the bare loop, " \
			"%7.1f instructions and %5.2f branches a stop, %d disagreements\n",
			name, step, 1e6 / us, us, bare / us, insns / stops, branches / stops, wrong
		  exit wrong > 0 || (step == "block" ? bare / us < 4 : us / bare > 1.25) }
	' <<<"$4" || bad=1
}

# program NAME CMD...
program() {
	local name=$1 us
	shift
	us=$(bare -- "$@")
	printf '%-8s %-6s %9.0f instructions/s %7.3f us each\n' "$name" bare "$(bc -l <<<"1000000/$us")" "$us"
	line "$name" insn "$us" "$(softrec insn -- "$@")"
	line "$name" block "$us" "$(softrec block -- "$@")"
}

python_attached() {
	rm -f "$work/ready"
	python3 "$work/loop.py" "$work/ready" 2>/dev/null &
	disown
	while [ ! -e "$work/ready" ]; do sleep 0.1; done
	line python3 "$1" "$2" "$(softrec "$1" -p $!)"
}

if [ "${1:-}" = --verify ]; then
	for command in "sort $work/lines" "$(gcc -print-prog-name=cc1) -quiet -O2 -o $work/s $work/many.c" \
		"-u -- python3 $work/loop.py $work/ready"; do
		[[ $command = -u* ]] || command="-- $command"
		# shellcheck disable=SC2086
		taskset -c "$cpu" "$O/tests/tools/stepbench" verify -s "$seconds" $command |
			grep -a '^verify' || bad=1
	done
	exit $bad
fi

program sort sort "$work/lines" -o /dev/null
us=$(bare -u -- python3 "$work/loop.py" "$work/ready")
printf '%-8s %-6s %9.0f instructions/s %7.3f us each\n' python3 bare "$(bc -l <<<"1000000/$us")" "$us"
python_attached insn "$us"
python_attached block "$us"
program cc1 "$(gcc -print-prog-name=cc1)" -quiet -O2 -o "$work/s" "$work/many.c"
exit $bad
