#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Attached targets run on unharmed: after a fire, several fires, Ctrl-C once and twice, SIGTERM."""
import os
import pty
import signal
import subprocess
import time

import lib


class Attached:
    """ptbpf -p in a session of its own, on a terminal when asked for."""

    def __init__(self, victim, *options, terminal=False):
        self.out = lib.new_dir()
        args = [lib.BIN, "-o", self.out, "--format", "json", "--multi-thread"] + list(options) + \
               ["-p", str(victim.pid)]
        self.master, slave = pty.openpty() if terminal else (None, None)
        self.process = subprocess.Popen(args, stdin=slave or subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        start_new_session=True,
                                        preexec_fn=self.own_terminal if terminal else None)
        if slave:
            os.close(slave)
        self.traced = lib.wait_until(lambda: all(
            lib.status_field(victim.pid, t, "TracerPid") != "0" for t in lib.tids(victim.pid)), 30)
        time.sleep(0.7)

    @staticmethod
    def own_terminal():
        import fcntl
        import termios
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def ctrl_c(self):
        os.write(self.master, b"\x03")

    def wait(self, seconds=60):
        try:
            out, err = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            return lib.Run("timeout", out.decode(), err.decode(), seconds, [])
        out, err = out.decode(), err.decode(errors="replace")
        return lib.Run(self.process.returncode, out, err, 0, lib.snapshots_in(out))


def check_unharmed(name, victim, speed):
    wrong = lib.harm(victim.pid)
    lib.check(name + "/nothing_left_behind", not wrong, "\n".join(wrong))
    lib.check(name + "/target_runs_on", victim.runs())
    after = victim.speed()
    lib.check(name + "/at_full_speed", after > speed / 2, "%.0f ticks/s, before %.0f" % (after, speed))
    lib.check(name + "/its_own_exit_status", victim.end() == 42)


def fire():
    with lib.Victim(4) as victim:
        speed, before = victim.speed(), lib.bpf_objects()
        attached = Attached(victim, "-t", "sym:rare")
        lib.check("fire/all_threads_followed", attached.traced)
        lib.check("fire/runs_while_traced", victim.runs(20))
        victim.call_rare()
        run = attached.wait()
        if lib.check("fire/fires", run.code == 0 and len(run.snapshots) == 1, lib.describe(run)):
            snapshot = lib.Snapshot(run.snapshots[0])
            lib.check("fire/all_threads", len(snapshot.meta["threads"]) == 4,
                      snapshot.meta["threads"])
            chain = [s.name for s in lib.last_chain(snapshot.slices(victim.pid))]
            lib.check("fire/chain", chain[-1:] == ["rare"] and "live" in chain, chain)
        check_unharmed("fire", victim, speed)
        left = lib.bpf_left(before)
        lib.check("fire/no_bpf_left", not left, left)


def later_thread_only():
    """Without --multi-thread -p TID follows that thread alone; the others run at full speed."""
    with lib.Victim(3) as victim:
        other = [t for t in lib.tids(victim.pid) if t != victim.pid][-1]
        out = lib.new_dir()
        process = subprocess.Popen([lib.BIN, "-o", out, "--format", "json", "-p", str(other)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        lib.wait_until(lambda: lib.status_field(victim.pid, other, "TracerPid") != "0", 20)
        time.sleep(0.5)
        fast = victim.speed()
        process.send_signal(signal.SIGINT)
        text, err = process.communicate(timeout=60)
        paths = lib.snapshots_in(text.decode())
        good = process.returncode == 0 and len(paths) == 1
        if lib.check("one_thread/snapshot", good, "%s %s" % (process.returncode, err.decode())):
            traced = [t["tid"] for t in lib.Snapshot(paths[0]).meta["threads"] if t["ring_bytes"]]
            lib.check("one_thread/that_alone", traced == [other], traced)
        free = victim.speed()
        lib.check("one_thread/others_at_full_speed", fast > free / 4, "%.0f %.0f" % (fast, free))
        wrong = lib.harm(victim.pid)
        lib.check("one_thread/unharmed", not wrong and victim.end() == 42, wrong)


def several_fires():
    with lib.Victim(3) as victim:
        speed = victim.speed()
        attached = Attached(victim, "-t", "sym:rare", "--max-snapshots", "3")
        for n in range(3):
            victim.call_rare()
            lib.wait_until(lambda: len(finished(attached.out)) > n, 30)
        run = attached.wait()
        lib.check("three_fires/three_snapshots", run.code == 0 and len(run.snapshots) == 3 and
                  len(set(run.snapshots)) == 3, lib.describe(run))
        sequences = [lib.Snapshot(p).meta["sequence"] for p in run.snapshots]
        lib.check("three_fires/in_order", sequences == [1, 2, 3], sequences)
        check_unharmed("three_fires", victim, speed)
    with lib.Victim(3) as victim:
        attached = Attached(victim, "-t", "sym:rare", "--multi-snapshot", terminal=True)
        for n in range(2):
            victim.call_rare()
            lib.wait_until(lambda: len(finished(attached.out)) > n, 30)
        attached.ctrl_c()
        run = attached.wait()
        lib.check("multi_snapshot/goes_on_until_ctrl_c", run.code == 0 and
                  len(run.snapshots) >= 2, lib.describe(run))
        lib.check("multi_snapshot/unharmed", not lib.harm(victim.pid) and victim.end() == 42)


def finished(out):
    return [d for d in os.listdir(out) if not d.endswith(".part")]


def interrupted():
    with lib.Victim(3) as victim:
        speed = victim.speed()
        attached = Attached(victim, terminal=True)
        attached.ctrl_c()
        run = attached.wait()
        good = run.code == 0 and len(run.snapshots) == 1
        if lib.check("ctrl_c/snapshot", good, lib.describe(run)):
            meta = lib.Snapshot(run.snapshots[0]).meta
            lib.check("ctrl_c/kind", meta["trigger"]["kind"] == "interrupt", meta["trigger"])
        check_unharmed("ctrl_c", victim, speed)
    with lib.Victim(3) as victim:
        attached = Attached(victim, "-t", "sym:rare", terminal=True)
        attached.ctrl_c()
        run = attached.wait()
        lib.check("ctrl_c_before_the_fire/exit_7", run.code == 7 and len(run.snapshots) == 1,
                  lib.describe(run))
        lib.check("ctrl_c_before_the_fire/unharmed", not lib.harm(victim.pid) and victim.end() == 42)
    with lib.Victim(3) as victim:
        speed = victim.speed()
        attached = Attached(victim, "-t", "sym:rare", terminal=True)
        attached.ctrl_c()
        attached.ctrl_c()
        run = attached.wait()
        lib.check("ctrl_c_twice/ends", run.code != "timeout", lib.describe(run))
        part = [d for d in os.listdir(attached.out) if d.endswith(".part")]
        lib.check("ctrl_c_twice/nothing_half_written", not part, part)
        check_unharmed("ctrl_c_twice", victim, speed)


def terminated():
    for name, number in (("sigterm", signal.SIGTERM), ("sighup", signal.SIGHUP),
                         ("sigkill", signal.SIGKILL), ("sigsegv", signal.SIGSEGV),
                         ("sigquit", signal.SIGQUIT)):
        with lib.case(name), lib.Victim(3) as victim:
            speed, before = victim.speed(), lib.bpf_objects()
            attached = Attached(victim, "-t", "sym:rare")
            attached.process.send_signal(number)
            run = attached.wait()
            lib.check(name + "/ends", run.code != "timeout", lib.describe(run))
            check_unharmed(name, victim, speed)
            left = lib.bpf_left(before)
            lib.check(name + "/no_bpf_left", not left, left)


def target_ends():
    with lib.Victim(3) as victim:
        attached = Attached(victim, "-t", "sym:rare")
        victim.set(1, 1)
        run = attached.wait()
        lib.check("target_ends/exit_7_and_snapshot", run.code == 7 and len(run.snapshots) == 1,
                  lib.describe(run))
        lib.check("target_ends/its_status", victim.end() == 42)
    with lib.Victim(3) as victim:
        attached = Attached(victim)
        victim.process.kill()
        run = attached.wait()
        lib.check("target_killed/snapshot", run.code == 0 and len(run.snapshots) == 1,
                  lib.describe(run))


def main():
    for name, body in (("fire", fire), ("one_thread", later_thread_only),
                       ("several_fires", several_fires), ("interrupted", interrupted),
                       ("terminated", terminated), ("target_ends", target_ends)):
        with lib.case(name):
            body()
    lib.finish()


if __name__ == "__main__":
    main()
