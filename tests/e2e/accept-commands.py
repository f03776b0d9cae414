#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""plan changes nothing, doctor tries the real thing, --user, Ctrl-C of a launched command."""
import json
import os
import pty
import re
import signal
import subprocess
import time

import lib


def plan():
    with lib.Victim(4) as victim:
        before, objects = victim.speed(), lib.bpf_objects()
        run = lib.ptbpf("plan", "-t", "sym:tick", "--multi-thread", "--buffer", "1M", "-p",
                        victim.pid)
        lib.check("plan/works", run.code == 0, lib.describe(run))
        absent = [t for t in lib.tids(victim.pid) if str(t) not in run.out]
        lib.check("plan/names_every_thread", not absent, "%s\n%s" % (absent, run.out))
        lib.check("plan/rings_and_what_is_attached", "256K" in run.out and "tick" in run.out,
                  run.out)
        wrong = lib.harm(victim.pid)
        lib.check("plan/changes_nothing", not wrong and not lib.bpf_left(objects, 1) and
                  victim.speed() > before / 2, wrong)
        lib.check("plan/target_goes_on", victim.end() == 42)
    begun = os.path.join(lib.new_dir(), "begun")
    run = lib.ptbpf("plan", "--", "/usr/bin/touch", begun)
    lib.check("plan/starts_nothing", run.code == 0 and not os.path.exists(begun), lib.describe(run))
    run = lib.ptbpf("plan", "-t", "sym:no_such_thing", "--", lib.program("fixed"))
    lib.check("plan/unknown_symbol", run.code == 5, lib.describe(run))


def doctor():
    run = lib.ptbpf("doctor")
    lib.check("doctor/table", run.code in (0, 3, 4) and "ptrace" in run.out and "BPF" in run.out,
              lib.describe(run))
    for name, uid in (("doctor_json", None), ("doctor_json_unprivileged", lib.NOBODY)):
        if uid is not None and os.geteuid():
            continue
        run = lib.ptbpf("doctor", "--json", uid=uid, cwd="/")
        try:
            rows = json.loads(run.out)
        except ValueError as error:
            lib.check(name, False, "%s\n%s" % (error, lib.describe(run)))
            continue
        text = json.dumps(rows)
        lib.check(name, "bpf" in text.lower() and "ptrace" in text.lower(), text[:800])


def as_other_user():
    if os.geteuid():
        lib.skip("user", "needs root")
        return
    run = lib.ptbpf("-o", lib.new_dir(), "--user", "nobody", "--start-at", "sym:abort", "--",
                    "/usr/bin/id", "-u")
    lib.check("user", re.search(r"^%d$" % lib.NOBODY, run.out, re.M), lib.describe(run))


class Terminal:
    """ptbpf and its command on a terminal of their own."""

    def __init__(self, *args):
        self.out = lib.new_dir()
        self.file = os.path.join(lib.new_dir("words", 0o777), "words")
        with open(self.file, "wb") as f:
            f.write(bytes(4096))
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.execv(lib.BIN, [lib.BIN, "-o", self.out, "--format", "json"] + list(args) +
                     ["--", lib.program("victim"), self.file, "2"])
        lib.wait_until(self.ready, 30)
        time.sleep(0.5)

    def ready(self):
        with open(self.file, "rb") as f:
            return f.read(8)[0] == 1

    def ctrl_c(self):
        os.write(self.master, b"\x03")

    def wait(self, seconds=60):
        text, end = b"", time.monotonic() + seconds
        os.set_blocking(self.master, False)
        while time.monotonic() < end:
            try:
                text += os.read(self.master, 65536)
            except BlockingIOError:
                pass
            except OSError:
                pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                text = text.decode(errors="replace").replace("\r", "")
                return lib.Run(code, text, text, 0, lib.snapshots_in(text))
            time.sleep(0.02)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return lib.Run("timeout", text.decode(errors="replace"), "", seconds, [])


def ctrl_c_of_a_command():
    terminal = Terminal()
    terminal.ctrl_c()
    run = terminal.wait()
    if lib.check("ctrl_c/snapshot", run.code == 0 and len(run.snapshots) == 1, lib.describe(run)):
        meta = lib.Snapshot(run.snapshots[0]).meta
        lib.check("ctrl_c/kind", meta["trigger"]["kind"] == "interrupt", meta["trigger"])
        lib.check("ctrl_c/the_command_got_it_too", lib.wait_until(
            lambda: not lib.processes_with(terminal.file), 5), run.out)
    terminal = Terminal("-t", "sym:rare")
    terminal.ctrl_c()
    run = terminal.wait()
    lib.check("ctrl_c/exit_7_before_the_fire", run.code == 7 and len(run.snapshots) == 1,
              lib.describe(run))


def main():
    for body in (plan, doctor, as_other_user, ctrl_c_of_a_command):
        with lib.case(body.__name__):
            body()
    lib.finish()


if __name__ == "__main__":
    main()
