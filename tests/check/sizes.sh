#!/bin/bash
# Files stay under 600 lines and functions under 60 (with a little air: 620 and 66).
cd "$ROOT" || exit 1
bad=0
while read -r file; do
	lines=$(wc -l <"$file")
	[ "$lines" -gt 620 ] && { echo "$file: $lines lines"; bad=1; }
	awk -v file="$file" '
		/^[a-zA-Z_].*\)$/ || /^[a-zA-Z_].*,$/ { head = $0 }
		/^{/ { begin = NR }
		/^}/ { if (begin && NR - begin > 66) { print file ": " begin ": " NR - begin " lines: " head; exit 1 } begin = 0 }
	' "$file" || bad=1
done < <(git ls-files -co --exclude-standard 'user/*.c' 'user/*.h' 'bpf/*')
exit $bad
