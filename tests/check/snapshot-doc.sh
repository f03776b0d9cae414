#!/bin/bash
# docs/snapshot.md names every member of snapshot.json.
cd "$ROOT" || exit 1
bad=0
for key in $(grep -oE '(META|MEMBER)\("[a-z_0-9]+"|\{ "[a-z_]+", [a-z_]+_fields' user/snapshot/meta.c |
	grep -oE '"[a-z_0-9]+"' | tr -d '"' | sort -u); do
	grep -qE "[\`.]$key[\`.[]" docs/snapshot.md || { echo "docs/snapshot.md: no word of \"$key\""; bad=1; }
done
exit $bad
