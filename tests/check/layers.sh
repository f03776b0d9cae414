#!/bin/bash
# The arrows between rooms (README, "Map"), checked from the quoted #includes.
set -u
cd "$ROOT" || exit 1
declare -A may=(
	[base]="base"
	[snapshot]="snapshot base"
	[image]="image base"
	[decode]="decode image snapshot base"
	[calls]="calls decode image base"
	[output]="output calls decode base"
	[record]="record snapshot image base"
	[cmd]="cmd record snapshot image decode calls output base"
	[main]="cmd base"
)
bad=0
while IFS=: read -r file include; do
	room=${file#user/}; room=${room%%/*}
	[ "$room" = main.c ] && room=main
	target=${include#*\"}; target=${target%\"*}
	case $target in
	*ptbpf_abi.h) [ "$room" = record ] || [ "$room" = snapshot ] && continue ;;
	bpf/*.skel.h) [ "$room" = record ] || [ "$room" = cmd ] && continue ;;
	esac
	to=${target%%/*}
	if [[ $target != */* ]]; then
		echo "$file: include \"$target\" by its room: \"ROOM/$target\""; bad=1
	elif [[ " ${may[$room]:-} " != *" $to "* ]]; then
		echo "$file: $room must not include $target"; bad=1
	fi
done < <(grep -rnoE '#include "[^"]+"' user --include='*.[ch]' | sed -E 's/:[0-9]+:/:/')
for file in bpf/*.bpf.c bpf/*.h; do
	grep -nE '#include ".*user/' "$file" && { echo "$file: BPF must not include user/"; bad=1; }
done
exit $bad
