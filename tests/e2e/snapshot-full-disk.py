#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""A disk that is full at any point of writing: one message, nothing left behind, the target unharmed;
and with enough room, everything."""
import os
import subprocess

import lib

SIZES = [4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024]  # KiB


def attempt(size, full):
    path = lib.new_dir("disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%dk" % size, "none", path], check=True)
    try:
        run = lib.ptbpf("-o", path, "--format", "text,json,perfetto", *full, "--",
                        lib.program("calls"), timeout=60)
        left = [os.path.relpath(os.path.join(d, n), path) for d, s, f in os.walk(path)
                for n in s + f]
        return run, left
    finally:
        subprocess.run(["umount", path], check=True)


def sweep(name, full):
    outcomes = []
    for size in SIZES:
        run, left = attempt(size, full)
        outcomes.append(run.code)
        if run.code == 0:
            good = any(l.endswith("perf.data") for l in left) and not any(".part" in l for l in left)
        else:
            messages = [m for m in lib.one_message(run.err) if "No space left" in m]
            good = run.code in (1, 6) and not left and len(messages) == 1
        if not good:
            lib.check("%s/%dK" % (name, size), False, "%s\n%s" % (left, lib.describe(run)))
    lib.check(name + "/full_is_refused_and_room_is_enough",
              outcomes[0] != 0 and outcomes[-1] == 0, outcomes)


def main():
    if os.geteuid() or subprocess.run(["unshare", "-m", "true"]).returncode:
        lib.skip_all("mounting a small disk needs root")
    for name, full in (("ring", ["--buffer", "64K"]), ("full_execution", ["--full-execution"])):
        with lib.case(name):
            sweep(name, full)
    lib.finish()


if __name__ == "__main__":
    main()
