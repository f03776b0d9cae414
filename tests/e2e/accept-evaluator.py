#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Who decides that a trigger fires: BPF where it loads, the software tracer where it may not."""
import os

import lib


def never_fires():
    """A BPF program that never fires, swapped in: nothing else may fire in its place."""
    never = os.path.join(lib.O, "ptbpf-never")
    if not os.path.exists(never):
        lib.skip("never/exit_7", "no " + never)
        return
    run = lib.record("--trigger", "sym:trigger_here", "--multi-thread", "--",
                     lib.program("rebalance"), binary=never)
    lib.check("never/exit_7", run.code == 7, lib.describe(run))
    lib.check("never/snapshot_says_exit", len(run.snapshots) == 1 and
              lib.Snapshot(run.snapshots[0]).meta["trigger"]["kind"] == "exit", lib.describe(run))
    if run.snapshots:
        meta = lib.Snapshot(run.snapshots[0]).meta
        lib.check("never/evaluator_named", meta["source"]["evaluator"] == "bpf", meta["source"])


def privileged():
    run = lib.record("--trigger", "sym:trigger_here", "--multi-thread", "--",
                     lib.program("rebalance"))
    if lib.check("bpf/fires", run.code == 0 and len(run.snapshots) == 1, lib.describe(run)):
        meta = lib.Snapshot(run.snapshots[0]).meta
        lib.check("bpf/evaluator_named", meta["source"]["evaluator"] == "bpf", meta["source"])
        lib.check("bpf/default_budget", meta["budget"]["bytes"] == 4 << 20, meta["budget"])
    return run


def chain_of(run):
    snapshot = lib.Snapshot(run.snapshots[0])
    return [s.name for s in lib.last_chain(snapshot.slices(snapshot.fired_tid()))]


def unprivileged(reference):
    uid = lib.NOBODY if os.geteuid() == 0 else None
    out = lib.new_dir("unprivileged", 0o777)
    run = lib.record("--trigger", "sym:trigger_here", "--multi-thread", "--",
                     lib.program("rebalance"), out=out, uid=uid, cwd="/")
    if not lib.check("soft/fires", run.code == 0 and len(run.snapshots) == 1, lib.describe(run)):
        return
    snapshot = lib.Snapshot(run.snapshots[0])
    lib.check("soft/evaluator_named", snapshot.meta["source"]["evaluator"] == "soft",
              snapshot.meta["source"])
    lib.check("soft/default_budget", snapshot.meta["budget"]["bytes"] == 256 << 10,
              snapshot.meta["budget"])
    said = [l for l in run.err.splitlines() if "BPF" in l]
    lib.check("soft/one_line_says_so", len(said) == 1, run.err)
    owner = os.stat(run.snapshots[0])
    lib.check("soft/snapshot_is_the_users", owner.st_uid == (uid if uid is not None else
              os.geteuid()) and owner.st_mode & 0o777 == 0o700, owner)
    if reference and reference.snapshots:
        lib.check("soft/same_chain_as_bpf", chain_of(run) == chain_of(reference),
                  "%s\n%s" % (chain_of(run), chain_of(reference)))
    run = lib.record("-t", "sym:trigger_here,arg0==5", "--", lib.program("rebalance"), out=out,
                     uid=uid, cwd="/")
    lib.check("soft/conditions_hold", run.code == 7, lib.describe(run))


def main():
    reference = None
    if lib.may_bpf():
        with lib.case("never/exit_7"):
            never_fires()
        with lib.case("bpf/fires"):
            reference = privileged()
    else:
        lib.skip("bpf/fires", "BPF programs may not be loaded here")
    with lib.case("soft/fires"):
        unprivileged(reference)
    lib.finish()


if __name__ == "__main__":
    main()
