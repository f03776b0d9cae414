#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""`make demo` as a first user sees it: a timeline that ends in the trigger, and where the trace lies.
Also as an ordinary user."""
import os
import re
import subprocess

import lib


def demo(name, uid):
    out = lib.new_dir("demo", 0o777)
    run = subprocess.run([os.path.join(lib.ROOT, "tests/demo.sh")], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, cwd="/",
                         env=dict(os.environ, O=lib.O, OUT=os.path.join(out, "demo")),
                         preexec_fn=lib.as_user(uid) if uid is not None else None)
    text, err = run.stdout.decode(), run.stderr.decode()
    everything = "exit %d\n%s\n--- stderr\n%s" % (run.returncode, text, err)
    if not lib.check(name + "/works", run.returncode == 0, everything):
        return
    for function in ("handle_request", "look_up", "cache_miss", "rebuild_index",
                     "log_slow_request", "worker-2"):
        lib.check("%s/shows_%s" % (name, function), function in text, everything)
    paths = re.findall(r"(\S+\.pftrace)", text)
    lib.check(name + "/says_where_the_trace_lies", paths and os.path.getsize(paths[-1]) > 1000 and
              "ui.perfetto.dev" in text, everything)
    lib.check(name + "/fits_on_some_screens", len(text.splitlines()) < 160, len(text.splitlines()))
    if uid is not None:
        lib.check(name + "/owned_by_the_user", os.stat(paths[-1]).st_uid == uid)


def main():
    with lib.case("demo"):
        demo("demo", None)
    if os.geteuid() == 0:
        reachable = subprocess.run(["test", "-x", lib.BIN], preexec_fn=lib.as_user(lib.NOBODY))
        if reachable.returncode:
            lib.skip("ordinary_user", "the build directory is not open to other users")
        else:
            with lib.case("ordinary_user"):
                demo("ordinary_user", lib.NOBODY)
    lib.finish()


if __name__ == "__main__":
    main()
