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
# The program runs on after the fire and prints as well: the snapshot is the line that is a directory.
snapshot=$("$@" | while read -r line; do [ -d "$line" ] && echo "$line"; done | tail -n 1)
[ -f "$snapshot/trace.pftrace" ] || { echo "the demo made no snapshot" >&2; exit 1; }

# Where each thread spent its time; the one that fired comes last.
set -- "$ptbpf" decode --format text --depth 7 --min-duration 5ms "$snapshot"
show "$@"
"$@" | awk '{ line[NR] = $0 }
	END { for (i = 1; i <= NR; i++) {
		if (NR <= 140 || i <= 20 || i > NR - 100) print line[i]
		else if (i == 21) print "  ... " NR - 120 " lines left out ..."
	} }'

cat <<END

The snapshot is     $snapshot
The whole timeline  $snapshot/trace.txt
For the Perfetto UI: open https://ui.perfetto.dev and drop this file on it (it stays on your machine):
                    $snapshot/trace.pftrace
END
