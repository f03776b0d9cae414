#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""The front process is killed with -9 at a random moment, again and again: no target is stopped, no
probe, BPF program or debug register stays, and what half-written snapshot is there is recognised.

KILL9_RUNS runs (default 24; the full count is 200), half attached, half launched."""
import os
import random
import shutil
import signal
import subprocess
import time

import lib

RUNS = int(os.environ.get("KILL9_RUNS", "24"))
SEED = int(os.environ.get("KILL9_SEED", "0")) or random.randrange(1, 1 << 30)


def start(victim, out, args):
    return subprocess.Popen([lib.BIN, "-o", out, "-t", "sym:rare", "--multi-thread"] + args,
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, start_new_session=True)


def kill_attached(chance, out):
    """Kills while attached to a victim; the list of what is wrong then."""
    with lib.Victim(3) as victim:
        process = start(victim, out, ["-p", str(victim.pid)])
        time.sleep(chance.uniform(0, 1.2))
        if chance.random() < 0.5:
            victim.call_rare()
            time.sleep(chance.uniform(0, 0.25))
        process.kill()
        process.wait()
        wrong = lib.harm(victim.pid)
        if not victim.runs():
            wrong.append("the target does not run on")
        status = victim.end()
        if status != 42:
            wrong.append("the target ended with %s" % status)
        return wrong


def kill_launched(chance, out):
    """Kills a ptbpf that launched the victim itself."""
    file = os.path.join(lib.new_dir("words", 0o777), "words")
    with open(file, "wb") as f:
        f.write(bytes(4096))
    process = start(None, out, ["--", lib.program("victim"), file, "3"])
    time.sleep(chance.uniform(0, 1.2))
    process.kill()
    process.wait()
    # killed early enough, there is none, or it is just being started
    pid = lib.wait_until(lambda: lib.running(lib.program("victim"), file), 1)
    wrong = lib.harm(pid) if pid and os.path.exists("/proc/%d" % pid) else []
    with open(file, "r+b", buffering=0) as f:
        def ticks():
            f.seek(64)
            return f.read(136)
        before = ticks()
        if pid and os.path.exists("/proc/%d" % pid) and not lib.wait_until(
                lambda: ticks() != before, 10):
            wrong.append("the launched target does not run on")
        f.seek(8)
        f.write(b"\1")
    if not lib.wait_until(lambda: not lib.running(lib.program("victim"), file), 10):
        pid = lib.running(lib.program("victim"), file)
        wrong.append("the launched target %s does not end" % pid)
        if pid:
            os.kill(pid, signal.SIGKILL)
    return wrong


def leftovers(out):
    return sorted(d for d in os.listdir(out) if d.endswith(".part"))


def main():
    chance = random.Random(SEED)
    before = lib.bpf_objects()
    out = lib.new_dir()
    print("%d runs, KILL9_SEED=%d" % (RUNS, SEED))
    bad, halves = [], 0
    for n in range(RUNS):
        body = kill_attached if n % 2 == 0 else kill_launched
        try:
            wrong = body(chance, out)
        except Exception as error:
            wrong = ["%s: %r" % (body.__name__, error)]
        if wrong:
            bad.append("run %d (%s): %s" % (n, body.__name__, "; ".join(wrong)))
        halves = max(halves, len(leftovers(out)))
    lib.check("targets_run_on_unharmed", not bad, "%d of %d\n%s" % (len(bad), RUNS, "\n".join(bad)))
    left = lib.bpf_left(before)
    lib.check("no_bpf_program_or_link_left", not left, left)
    print("%d half-written snapshots at most at once" % halves)
    check_recovery(out)
    shutil.rmtree(out)
    lib.finish()


def check_recovery(out):
    """A .part of a dead writer is removed, or published when it is whole, by the next run."""
    fake = os.path.join(out, "victim-20200101-000000-1.part")
    os.makedirs(os.path.join(fake, "images"))
    with open(os.path.join(fake, "perf.data"), "wb") as f:
        f.write(b"PERFILE2 cut short")
    run = lib.record("--", lib.program("fixed"), out=out)
    lib.check("leftover_parts_are_dealt_with", run.code == 0 and len(run.snapshots) == 1 and
              not leftovers(out), "%s\n%s" % (leftovers(out), lib.describe(run)))
    for name in os.listdir(out):
        path = os.path.join(out, name, "snapshot.json")
        lib.check("what_stays_is_whole", os.path.isfile(path), os.listdir(os.path.join(out, name)))


if __name__ == "__main__":
    main()
