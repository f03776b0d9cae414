#!/bin/bash
# Block plans against single steps on real programs: at each step the registers are as computed, each
# stop and random places between resolve to what was executed; alone and as if other threads ran.
set -u
bench=$O/tests/tools/stepbench
bad=0

seq 1 4000 | rev >"$TMPDIR/lines"
for i in $(seq 1 40); do
	echo "int f$i(int a,int b){int s=b;for(int i=0;i<a;i++)s+=i&$i?i*b:s/3;return s;}"
done >"$TMPDIR/many.c"
cat >"$TMPDIR/threads.py" <<'EOS'
import json, os, queue, re, signal, threading, time
out = queue.Queue()
hits = []
signal.signal(signal.SIGALRM, lambda number, frame: hits.append(number))
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
def work(k):
    i = 0
    while True:
        i += 1
        out.put(json.dumps({"worker": k, "number": i, "text": "x%dy" % (i * k)}))
        if i % 5 == 0:
            time.sleep(0)
os.kill(os.getpid(), signal.SIGUSR1)
for k in range(4):
    threading.Thread(target=work, args=(k,), daemon=True).start()
while True:
    re.findall(r"\d+", out.get())
EOS

# verify NAME [OPTIONS] -- COMMAND
verify() {
	local name=$1
	shift
	timeout 150 "$bench" verify -n 40000 -s 60 "$@" >"$TMPDIR/out" 2>"$TMPDIR/err" </dev/null
	local status=$? checked
	checked=$(sed -n 's/.* and \([0-9]*\) computed steps checked, 0 disagreements$/\1/p' "$TMPDIR/out")
	if [ $status -eq 0 ] && [ "${checked:-0}" -gt 3000 ]; then
		echo "PASS e2e/block-verify/$name"
	else
		cat "$TMPDIR/err" "$TMPDIR/out"
		echo "FAIL e2e/block-verify/$name"
		bad=1
	fi
}

cc1=$(gcc -print-prog-name=cc1)
verify sort -- sort -o "$TMPDIR/sorted" "$TMPDIR/lines"
verify sort-others -x -- sort -o "$TMPDIR/sorted" "$TMPDIR/lines"
verify cc1 -- "$cc1" -quiet -O2 -o "$TMPDIR/s" "$TMPDIR/many.c"
verify cc1-others -x -- "$cc1" -quiet -O2 -o "$TMPDIR/s" "$TMPDIR/many.c"
verify python-threads -u -- python3 "$TMPDIR/threads.py"
exit $bad
