#!/bin/bash
# clang-format agrees with every source file.
cd "$ROOT" || exit 1
git ls-files -co --exclude-standard '*.c' '*.h' | xargs -r clang-format --dry-run -Werror
