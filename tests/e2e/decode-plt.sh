#!/bin/bash
# The names of PLT slots equal objdump's, for each way of linking; lazy and bound, with and without CET.
set -u
cd "$TMPDIR" || exit 1
cat >prog.c <<'END'
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
	void *volatile pointer = (void *)atexit;
	printf("%f %p\n", pow(argc, 0.3), pointer);
	puts(strcpy(malloc(100), argv[0]));
	return atoi(argv[0]) + (atexit((void (*)(void))abort) == 0);
}
END
status=0
check() {
	local id=$1
	shift
	gcc -O1 prog.c -o "$id" "$@" -lm 2>"$id.err" || { echo "SKIP e2e/decode-plt/$id: gcc $*"; return; }
	# GLOB_DAT slots of .plt.got are "foo@plt" to objdump as well; versions are cut
	objdump -d --section=.plt --section=.plt.sec --section=.plt.got "$id" |
		sed -nE 's/^0*([0-9a-f]+) <([^@>+-]+)(@[^>]*)?@plt>:$/\1 \2@plt/p' | sort >"$id.want"
	"$O/tests/tools/object_dump" "$id" | awk '$3 ~ /@plt$/ { print $1, $3 }' | sort >"$id.all"
	# objdump leaves lazy slots without a name where .plt.sec has the names
	grep -v 'plt0@plt' "$id.all" | grep -F -w -f <(cut -d' ' -f1 "$id.want") >"$id.got"
	[ -s "$id.want" ] && diff "$id.want" "$id.got" && echo "PASS e2e/decode-plt/$id" && return
	echo "FAIL e2e/decode-plt/$id"
	status=1
}
check lazy -Wl,-z,lazy
check now -Wl,-z,now
check cet -fcf-protection=full -Wl,-z,lazy -Wl,-z,ibtplt
check cet-now -fcf-protection=full -Wl,-z,now -Wl,-z,ibtplt
check no-pie -no-pie -Wl,-z,lazy
check gold -fuse-ld=gold -Wl,-z,lazy
check lld -fuse-ld=lld -Wl,-z,lazy
check m32 -m32 -Wl,-z,lazy
check m32-no-pie -m32 -no-pie
# A static program's slots lead to resolvers: named by them.
gcc -static -O1 prog.c -o static -lm && "$O/tests/tools/object_dump" static | grep -q ' strcpy@plt' &&
	echo "PASS e2e/decode-plt/static" || { echo "FAIL e2e/decode-plt/static"; status=1; }
exit $status
