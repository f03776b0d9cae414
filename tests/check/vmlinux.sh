#!/bin/sh
# vmlinux/vmlinux.h agrees with the running kernel's BTF.
exec "$ROOT/vmlinux/check"
