#!/bin/bash
# Uprobes on, under and next to the debug registers of block stepping: every hit counts once, the
# program runs as without, the trace decodes without an error and ends at the fire.
set -u
bad=0
[ "$(id -u)" = 0 ] || { echo "needs root to load BPF"; exit 77; }

one_mode() {
	local mode=$1 dir=$TMPDIR/$1
	mkdir -p "$dir"
	timeout 120 "$BIN" -q --soft-step "$mode" -o "$dir" \
		-t "sym:one,after=100000" -t "sym:two,after=100000" -t "sym:two+1,after=100000" \
		-t "sym:blocked,after=100000" -t "sym:loop_head,after=100000" -t "sym:three,after=199" \
		-- "$PROGRAMS/soft_probes" >"$dir/out" 2>"$dir/err" </dev/null || {
		echo "exit $?"; cat "$dir/err"; return 1
	}
	"$BIN" decode --format json "$(tail -n 1 "$dir/out")" >/dev/null || return 1
	python3 - "$(tail -n 1 "$dir/out")" <<'P'
import json, sys
d = json.load(open(sys.argv[1] + "/snapshot.json"))
if d["source"]["evaluator"] != "bpf":
    print("no BPF here")
    sys.exit(77)
counts = {c["spec"].split(",")[0]: (c["hits"], c["fires"]) for c in d["counts"]}
want = {"sym:one": (299, 0), "sym:two": (199, 0), "sym:two+1": (199, 0), "sym:blocked": (10, 0),
        "sym:loop_head": (50, 0), "sym:three": (200, 1)}
if counts != want or d["source"]["disagreements"] or d["trigger"]["hit"] != 200:
    print(counts, d["source"], d["trigger"])
    sys.exit(1)
P
}

for mode in insn block verify; do
	one_mode $mode
	case $? in
	0) echo "PASS e2e/soft-probes/$mode" ;;
	77) echo "SKIP e2e/soft-probes/$mode: no BPF here" ;;
	*) echo "FAIL e2e/soft-probes/$mode"; bad=1 ;;
	esac
done
exit $bad
