#!/bin/bash
# Names that belong to libraries are never defined here; stderr is the logger's alone.
cd "$ROOT" || exit 1
bad=0
grep -nE '^(static |const |inline |struct |enum |int |void |bool |u?int[0-9]+_t |size_t |char )+\*?(pt|bpf|btf|elf)_[a-z0-9_]+ *[({=;]' \
	$(git ls-files -co --exclude-standard 'user/*.c' 'user/*.h') | grep -vE '^\S+\s+(struct|enum) (pt|bpf|btf|elf)_[a-z_]+ [a-z*]' |
	grep -vE ':(static |const )*struct (pt|bpf|btf|elf)_[a-z_]+ \*?[a-z]' && bad=1
grep -nE 'fprintf\(stderr|perror\(' $(git ls-files -co --exclude-standard 'user/*.c') | grep -v '^user/base/log.c' && bad=1
grep -nE '#include "(utils|common)\.h"' -r user && bad=1
exit $bad
