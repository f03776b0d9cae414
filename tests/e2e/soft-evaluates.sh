#!/bin/bash
# Where BPF may not be loaded, the stepper evaluates triggers itself: the same hit fires, with the
# same argument, as when BPF does it.
set -u
[ "$(id -u)" = 0 ] || { echo "needs root to compare with BPF"; exit 77; }
cp "$BIN" "$PROGRAMS/soft_probes" "$TMPDIR" && chmod 755 "$TMPDIR"/*
bad=0
n=0

# fire USER SPEC: prints evaluator, hit, first argument, hits and fires
fire() {
	local dir=$TMPDIR/$n-$1
	mkdir "$dir" && chmod 777 "$dir"
	timeout 60 setpriv --reuid "$1" --regid nogroup --clear-groups "$TMPDIR/ptbpf" -q -o "$dir" \
		-t "$2" -- "$TMPDIR/soft_probes" >"$dir/out" 2>"$dir/err" </dev/null || cat "$dir/err" >&2
	python3 - "$(tail -n 1 "$dir/out")" <<'P'
import json, sys
d = json.load(open(sys.argv[1] + "/snapshot.json"))
c = d["counts"][0]
print(d["source"]["evaluator"], d["trigger"]["hit"], d["trigger"]["args"][0], c["hits"], c["fires"])
P
}

while read -r spec want; do
	n=$((n + 1))
	soft=$(fire nobody "$spec")
	bpf=$(fire root "$spec")
	if [ "$soft" != "soft $want" ]; then
		echo "FAIL e2e/soft-evaluates/$n ($spec: $soft, not soft $want)"
		bad=1
	elif [ "${bpf%% *}" = bpf ] && [ "${bpf#* }" != "$want" ]; then
		echo "FAIL e2e/soft-evaluates/$n ($spec: $bpf, not bpf $want)"
		bad=1
	else
		echo "PASS e2e/soft-evaluates/$n"
	fi
done <<'L'
sym:three,arg0>=150 151 0x96 151 1
sym:three,after=20,every=7 27 0x1a 27 1
sym:one,arg0==41,comm=soft_probes 61 0x29 61 1
sym:blocked,arg0!=0 2 0x1 2 1
L
exit $bad
