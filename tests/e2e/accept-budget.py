#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""The budget in a real run: history from before a rebalance is kept, the busy thread gets more."""
import lib


def rebalance():
    run = lib.record("-t", "sym:trigger_here", "--multi-thread", "--buffer", "256K", "--",
                     lib.program("rebalance"), "7")
    if not lib.check("rebalance/fires", run.code == 0 and len(run.snapshots) == 1,
                     lib.describe(run)):
        return
    snapshot = lib.Snapshot(run.snapshots[0])
    meta, tid = snapshot.meta, snapshot.fired_tid()
    mine = [e for e in meta["budget_events"] if e["tid"] == tid]
    shrunk = [e for e in mine if 0 < e["to_bytes"] < e["from_bytes"]]
    lib.check("rebalance/its_ring_shrank", bool(shrunk), mine)
    names = [s.name for s in snapshot.slices(tid)]
    lib.check("rebalance/history_from_before_it", names.count("marker_before_rebalance") == 5,
              names[-40:])
    lib.check("rebalance/and_from_after_it", names.count("marker_after_rebalance") == 3 and
              names[-1] == "trigger_here", names[-40:])
    gaps = snapshot.threads()[tid].get("gaps", [])
    resized = [g for g in gaps if "resize" in str(g.get("reason", g))]
    lib.check("rebalance/the_join_is_a_recorded_gap", resized and not any(
        g.get("error") for g in gaps), gaps)
    long = [e for e in shrunk if not 0 < e["gap_ns"] < 1000000000]
    lib.check("rebalance/with_its_length", shrunk and not long, shrunk)
    marks = [s for s in snapshot.slices(tid) if s.name == "marker_before_rebalance"]
    shrink_time = shrunk[0]["time_ns"] if shrunk else 0
    lib.check("rebalance/really_from_before", marks and
              all(s.end <= shrink_time for s in marks[:5]), (marks[:2], shrink_time))


def busy_ring(balance):
    run = lib.record("-t", "sym:trigger_here", "--multi-thread", "--buffer", "512K", "--balance",
                     balance, "--", lib.program("activity"), "4000", timeout=120)
    if not lib.check(balance + "/fires", run.code == 0 and len(run.snapshots) == 1,
                     lib.describe(run)):
        return None, None
    meta = lib.Snapshot(run.snapshots[0]).meta
    lib.check(balance + "/named", meta["budget"]["balance"] == balance, meta["budget"])
    live = [t for t in meta["threads"] if not t["exited"]]
    fired = [t for t in live if t["fired"]][0]
    return fired, live


def activity():
    equal, live = busy_ring("equal")
    if equal:
        sizes = {t["ring_bytes"] for t in live}
        lib.check("equal/all_the_same", sizes == {32768}, live)
    active, live = busy_ring("activity")
    if equal and active:
        lib.check("activity/the_busy_thread_has_more", active["ring_bytes"] > equal["ring_bytes"],
                  "%s\n%s" % (active, equal))
        lib.check("activity/sum_within_budget", sum(t["ring_bytes"] + t["tail_bytes"]
                                                    for t in live) <= 512 << 10, live)


def main():
    with lib.case("rebalance"):
        rebalance()
    with lib.case("activity"):
        activity()
    lib.finish()


if __name__ == "__main__":
    main()
