#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Triggers on symbols of shared libraries: the snapshot ends in the throwing call chain."""
import os
import signal

import lib

CHAIN = ["start_service", "load_config", "validate"]


def in_order(wanted, chain):
    rest = iter(chain)
    return all(name in rest for name in wanted)


def fire(name, symbol, args):
    run = lib.record("--trigger", "sym:" + symbol, "--multi-thread", "--", lib.program("throws"), *args)
    if not lib.check(name + "/fires", run.code == 0 and len(run.snapshots) == 1, lib.describe(run)):
        return None
    snapshot = lib.Snapshot(run.snapshots[0])
    trigger = snapshot.meta["trigger"]
    lib.check(name + "/names_the_trigger", trigger["kind"] == "sym" and
              trigger["spec"] == "sym:" + symbol and
              trigger.get("symbol", "").startswith(symbol), trigger)
    chain = [s.name for s in lib.last_chain(snapshot.slices(snapshot.fired_tid()))]
    lib.check(name + "/ends_in_the_call_chain", in_order(CHAIN + [symbol], chain) and
              chain[-1] == symbol, chain)
    return snapshot


SCRIPT = """
import math, json
def render(n):
    return json.dumps({"n": n, "list": list(range(n))})
def work():
    math.cbrt(2.0)
    for i in range(3):
        render(i)
    math.nextafter(1.0, 2.0)
work()
"""


def python():
    """An interpreter that runs at full speed until its script calls cbrt()."""
    script = os.path.join(lib.new_dir(), "script.py")
    with open(script, "w") as f:
        f.write(SCRIPT)
    run = lib.record("--start-at", "sym:cbrt", "-t", "sym:nextafter", "--", "/usr/bin/python3",
                     "-S", "-E", script)
    if not lib.check("python/fires", run.code == 0 and len(run.snapshots) == 1, lib.describe(run)):
        return
    snapshot = lib.Snapshot(run.snapshots[0])
    slices = snapshot.slices(snapshot.fired_tid())
    names = [s.name for s in slices]
    lib.check("python/ends_in_nextafter", names[-1] == "nextafter" and len(names) > 100, names[-5:])
    lib.check("python/fast_until_cbrt", run.seconds < 60, run.seconds)


def main():
    with lib.case("python"):
        python()
    with lib.case("cxa_throw/fires"):
        snapshot = fire("cxa_throw", "__cxa_throw", [])
        if snapshot:
            names = [s.name for s in snapshot.slices(snapshot.fired_tid())]
            lib.check("cxa_throw/is_the_first_throw", names.count("validate") == 2 and
                      names.count("__cxa_throw") == 1, names[-30:])
            lib.check("cxa_throw/target_goes_on", snapshot.meta["target"].get("wait_status", 0) == 0,
                      snapshot.meta["target"])
    with lib.case("abort/fires"):
        snapshot = fire("abort", "abort", ["abort"])
        if snapshot:
            chain = [s.name for s in lib.last_chain(snapshot.slices(snapshot.fired_tid()))]
            lib.check("abort/through_terminate", any("terminate" in name for name in chain), chain)
    with lib.case("summary/says_how_it_ended"):
        run = lib.record("-t", "sym:abort", "--", lib.program("throws"), "abort")
        lib.check("summary/says_how_it_ended", "SIGABRT" in run.err or "Aborted" in run.err or
                  "signal %d" % signal.SIGABRT in run.err, lib.describe(run))
    with lib.case("object_named"):
        run = lib.record("-t", "sym:libc*!abort", "--", lib.program("throws"), "abort")
        lib.check("object_named", run.code == 0 and len(run.snapshots) == 1, lib.describe(run))
        run = lib.record("-t", "sym:libstdc++*!abort", "--", lib.program("throws"), "abort")
        lib.check("object_named_wrongly", run.code == 5 and not run.snapshots, lib.describe(run))
    with lib.case("later_mapped"):
        run = lib.record("-t", "plugin_work", "--", lib.program("dlopens"))
        lib.check("later_mapped", run.code == 0 and len(run.snapshots) == 1, lib.describe(run))
        snapshot = lib.Snapshot(run.snapshots[0])
        chain = [s.name for s in lib.last_chain(snapshot.slices(snapshot.fired_tid()))]
        lib.check("later_mapped/chain", chain[-2:] == ["use_plugin", "plugin_work"], chain)
        plugin = os.path.join(lib.PROGRAMS, "plugin.so")
        lib.check("later_mapped/object_in_the_timeline", any(
            os.path.basename(s.object) == os.path.basename(plugin)
            for s in snapshot.slices(snapshot.fired_tid())), chain)
    lib.finish()


if __name__ == "__main__":
    main()
