#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Process ids: ptbpf's own namespace everywhere, the target's own for display."""
import os
import subprocess

import lib


def inside():
    """ptbpf and its target live in a pid namespace."""
    out = lib.new_dir()
    if subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"]).returncode:
        lib.skip("inside/fires", "no pid namespace with a /proc of its own can be made here")
        return
    run = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", lib.BIN, "-o", out,
                          "--format", "json", "-t", "sym:trigger_here", "--multi-thread", "--",
                          lib.program("rebalance"), "3"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=120)
    paths = lib.snapshots_in(run.stdout.decode())
    if not lib.check("inside/fires", run.returncode == 0 and len(paths) == 1, run.stderr.decode()):
        return
    snapshot = lib.Snapshot(paths[0])
    trigger = snapshot.meta["trigger"]
    lib.check("inside/small_ids", 1 < trigger["tid"] < 100 and trigger["ns_tid"] == trigger["tid"],
              trigger)
    chain = [s.name for s in lib.last_chain(snapshot.slices(trigger["tid"]))]
    lib.check("inside/chain", chain[-1:] == ["trigger_here"], chain)
    lib.check("inside/evaluator", snapshot.meta["source"]["evaluator"] == "bpf",
              snapshot.meta["source"])
    lib.check("inside/every_live_thread", len([t for t in snapshot.meta["threads"]
                                               if not t["exited"]]) == 5, snapshot.meta["threads"])


def target_only():
    """The target alone is in a pid namespace, as its first process."""
    file = os.path.join(lib.new_dir("words", 0o777), "words")
    with open(file, "wb") as f:
        f.write(bytes(4096))
    outer = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", lib.program("victim"),
                              file, "3"], stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        children = "/proc/%d/task/%d/children" % (outer.pid, outer.pid)
        pid = int(lib.wait_until(lambda: open(children).read().split(), 10)[0])
        lib.wait_until(lambda: len(lib.tids(pid)) == 3, 10)
        process = subprocess.Popen([lib.BIN, "-o", lib.new_dir(), "--format", "json", "-t",
                                    "sym:rare", "--multi-thread", "-p", str(pid)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        lib.wait_until(lambda: lib.status_field(pid, pid, "TracerPid") != "0", 20)
        with open(file, "r+b") as f:
            f.seek(16)
            f.write(b"\1")
        out, err = process.communicate(timeout=60)
        paths = lib.snapshots_in(out.decode())
        if not lib.check("target_only/fires", process.returncode == 0 and len(paths) == 1,
                         err.decode()):
            return
        trigger = lib.Snapshot(paths[0]).meta["trigger"]
        lib.check("target_only/both_ids", trigger["pid"] == pid and trigger["tid"] == pid and
                  trigger["ns_pid"] == 1 and trigger["ns_tid"] == 1, trigger)
        wrong = lib.harm(pid)
        lib.check("target_only/unharmed", not wrong, wrong)
    finally:
        outer.kill()
        outer.wait()


def main():
    if os.geteuid() or not lib.may_bpf():
        lib.skip_all("needs root for pid namespaces")
    with lib.case("inside"):
        inside()
    with lib.case("target_only"):
        target_only()
    lib.finish()


if __name__ == "__main__":
    main()
