#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Programs that fork, exec, daemonise or use SIGTRAP, with and without --follow-forks; two at once."""
import os
import subprocess

import lib


def names_of(snapshot):
    """{process: set of its function names}"""
    found = {}
    for thread in snapshot.timeline()["threads"]:
        names = found.setdefault(thread["pid"], set())
        names.update(s.name for s in thread["slices"])
    return found


def run_mode(mode, *options):
    """Runs processes MODE; (run, its snapshot, whether the last process finished, truth dir)."""
    directory = lib.new_dir("mode")
    done = os.path.join(directory, "done")
    env = {"PTBPF_TRUTH": os.path.join(directory, "log"), "PROCESSES_DONE": done}
    run = lib.record("--multi-thread", *options, "--", lib.program("processes"), mode, env=env)
    finished = lib.wait_until(lambda: os.path.exists(done), 20)
    snapshot = lib.Snapshot(run.snapshots[0]) if run.snapshots else None
    return run, snapshot, bool(finished), directory


def children_truth(directory):
    """Sum of the calls that the child processes logged."""
    counts = {}
    for name in os.listdir(directory):
        if name.startswith("log."):
            for function, n in lib.truth_counts(lib.read_truth(os.path.join(directory, name))).items():
                counts[function] = counts.get(function, 0) + n
    return counts


def without_follow():
    for mode in ("fork", "vfork", "spawn", "daemon", "orphan"):
        with lib.case(mode + "/runs"):
            run, snapshot, finished, directory = run_mode(mode)
            good = run.code == 0 and snapshot and finished
            if not lib.check(mode + "/runs", good, lib.describe(run) + " finished %s" % finished):
                continue
            target = snapshot.meta["target"]
            lib.check(mode + "/status", target.get("wait_status") == 0, target)
            names = names_of(snapshot)
            lib.check(mode + "/parent_alone", len(names) == 1 and
                      "in_parent" in set().union(*names.values()), {k: len(v) for k, v in names.items()})
            if mode in ("fork", "daemon", "orphan"):
                counted = children_truth(directory)
                want = {"fork": {"in_child": 6}, "daemon": {"in_grandchild": 5},
                        "orphan": {"in_grandchild": 5}}[mode]
                lib.check(mode + "/children_unharmed", counted == want or
                          all(counted.get(k) == v for k, v in want.items()), counted)


def with_follow():
    for mode, function, calls in (("fork", "in_child", 6), ("daemon", "in_grandchild", 5),
                                  ("orphan", "in_grandchild", 5)):
        name = "follow_" + mode
        with lib.case(name + "/runs"):
            run, snapshot, finished, _ = run_mode(mode, "--follow-forks", "--full-execution")
            if not lib.check(name + "/runs", run.code == 0 and snapshot and finished,
                             lib.describe(run) + " finished %s" % finished):
                continue
            seen = sum(s.name == function
                       for t in snapshot.timeline()["threads"] for s in t["slices"])
            lib.check(name + "/every_call_of_the_children", seen == calls, seen)
    with lib.case("follow_trigger"):
        run, snapshot, finished, _ = run_mode("orphan", "--follow-forks", "-t", "in_grandchild")
        lib.check("follow_trigger", run.code == 0 and snapshot and finished and
                  snapshot.meta["trigger"]["tid"] not in (0, None) and "in_grandchild" in
                  snapshot.meta["trigger"].get("symbol", ""), lib.describe(run))
    with lib.case("follow_not"):
        run, snapshot, finished, _ = run_mode("orphan", "-t", "in_grandchild")
        lib.check("follow_not", run.code == 7 and finished, lib.describe(run))


def execs():
    for mode in ("exec", "thread-exec"):
        with lib.case(mode + "/runs"):
            run, snapshot, finished, directory = run_mode(mode, "--full-execution")
            if not lib.check(mode + "/runs", run.code == 0 and snapshot and finished,
                             lib.describe(run) + " finished %s" % finished):
                continue
            seen = sum(s.name == "after_exec"
                       for t in snapshot.timeline()["threads"] for s in t["slices"])
            lib.check(mode + "/calls_after_it", seen == 3, seen)
            before = set().union(*names_of(snapshot).values())
            lib.check(mode + "/calls_before_it", "in_parent" in before, sorted(before)[:40])
            run, snapshot, finished, _ = run_mode(mode, "-t", "after_exec")
            lib.check(mode + "/trigger_after_it", run.code == 0 and snapshot and
                      snapshot.meta["trigger"].get("symbol", "").startswith("after_exec"),
                      lib.describe(run))


def sigtrap():
    for step in ("insn", "block", "verify"):
        with lib.case("sigtrap/" + step):
            run = lib.record("--multi-thread", "--soft-step", step, "--", lib.program("sigtraps"))
            target = lib.Snapshot(run.snapshots[0]).meta["target"] if run.snapshots else None
            lib.check("sigtrap/" + step, run.code == 0 and target and
                      target.get("wait_status") == 0, "%s\n%s" % (target, lib.describe(run)))


def two_at_once():
    runs = []
    for symbol, program in (("trigger_here", "rebalance"), ("__cxa_throw", "throws")):
        out = lib.new_dir("two")
        process = subprocess.Popen([lib.BIN, "-o", out, "--format", "json", "-t", "sym:" + symbol,
                                    "--multi-thread", "--", lib.program(program)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        runs.append((symbol, process))
    for symbol, process in runs:
        out, err = process.communicate(timeout=120)
        paths = lib.snapshots_in(out.decode())
        good = process.returncode == 0 and len(paths) == 1
        lib.check("two_at_once/%s_fires" % symbol, good, "%s\n%s" % (process.returncode, err.decode()))
        if not good:
            continue
        snapshot = lib.Snapshot(paths[0])
        chain = [s.name for s in lib.last_chain(snapshot.slices(snapshot.fired_tid()))]
        lib.check("two_at_once/%s_chain" % symbol, chain and chain[-1] == symbol, chain)
        lib.check("two_at_once/%s_hits" % symbol,
                  [c["fires"] for c in snapshot.meta["counts"]] == [1], snapshot.meta["counts"])


def same_program_twice():
    """The same function is a trigger of two sessions; each sees its own process only."""
    with lib.Victim(2) as quiet, lib.Victim(2) as loud:
        processes = []
        for victim in (quiet, loud):
            processes.append(subprocess.Popen(
                [lib.BIN, "-o", lib.new_dir("same"), "-t", "sym:rare", "-p", str(victim.pid)],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        for victim in (quiet, loud):
            lib.wait_until(lambda: lib.status_field(victim.pid, victim.pid, "TracerPid") != "0", 20)
        import time
        time.sleep(1)
        loud.call_rare()
        out, err = processes[1].communicate(timeout=60)
        lib.check("same_program_twice/fires", processes[1].returncode == 0 and
                  len(lib.snapshots_in(out.decode())) == 1, err.decode())
        lib.check("same_program_twice/the_other_waits_on", processes[0].poll() is None,
                  processes[0].poll())
        quiet.call_rare()
        out, err = processes[0].communicate(timeout=60)
        lib.check("same_program_twice/then_fires", processes[0].returncode == 0 and
                  len(lib.snapshots_in(out.decode())) == 1, err.decode())
        for victim in (quiet, loud):
            wrong = lib.harm(victim.pid)
            lib.check("same_program_twice/unharmed", not wrong and victim.end() == 42, wrong)


def main():
    without_follow()
    with_follow()
    execs()
    sigtrap()
    with lib.case("two_at_once"):
        two_at_once()
    with lib.case("same_program_twice"):
        same_program_twice()
    lib.finish()


if __name__ == "__main__":
    main()
