#!/bin/sh
# `make demo`: records a small server whose worker-2 hits a slow path, shows what its threads did up
# to there, and says where the trace for the Perfetto UI lies. Needs no root.
set -eu
O=${O:-build}
ptbpf=$O/ptbpf
out=${OUT:-$O/demo}

show() {
	printf '\n\033[1m$ %s\033[0m\n' "$*" | if [ -t 1 ]; then cat; else sed 's/\x1b\[[0-9;]*m//g'; fi
}

set -- "$ptbpf" --trigger sym:log_slow_request --multi-thread --format perfetto,text \
	-o "$out" -- "$O/programs/demo"
show "$@"
snapshot=$("$@" | tail -n 1) # after what the program itself prints
[ -f "$snapshot/trace.pftrace" ] || { echo "the demo made no snapshot" >&2; exit 1; }

# The thread that fired, its last stretch; each other thread's newest lines.
show "$ptbpf" decode --format text --from=-200ms "$snapshot"
text=$snapshot/trace.txt
total=$(wc -l <"$text")
if [ "$total" -le 100 ]; then
	cat "$text"
else
	head -n 20 "$text"
	echo "  ... $((total - 80)) lines left out; all of it is in $text ..."
	tail -n 60 "$text"
fi

cat <<END

The snapshot is     $snapshot
The whole timeline  $text
For the Perfetto UI: open https://ui.perfetto.dev and drop this file on it (it stays on your machine):
                    $snapshot/trace.pftrace
END
