#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Eight workers, 200 threads that come and go, a trigger in a worker."""
import re

import lib


def pow2(n):
    return n > 0 and not n & (n - 1)


def check_budget(name, meta):
    budget, threads = meta["budget"], meta["threads"]
    rings = sum(t["ring_bytes"] for t in threads)
    tails = sum(t["tail_bytes"] for t in threads)
    bad = [t for t in threads if t["ring_bytes"] and
           (not pow2(t["ring_bytes"]) or t["ring_bytes"] < 16384)]
    lib.check(name + "/rings_are_powers_of_two", not bad, bad)
    lib.check(name + "/rings_and_tails_add_up", rings + tails <= budget["used_bytes"] <=
              budget["peak_bytes"] <= budget["bytes"],
              "rings %d tails %d %s" % (rings, tails, budget))
    silent = [t for t in threads if not t["ring_bytes"] and not t["untraced"] and not t["exited"]]
    lib.check(name + "/no_silent_drop", not silent, silent)
    more = [t for t in threads if t["trace_bytes"] > t["ring_bytes"] + t["tail_bytes"]]
    lib.check(name + "/trace_fits_its_ring", not more, more)
    replay_budget(name, meta)


def replay_budget(name, meta):
    """The sum of what the history gave and took never exceeds the budget."""
    held, over = {}, []
    for event in meta["budget_events"]:
        held[event["tid"]] = event["to_bytes"] + event["tail_bytes"]
        if sum(held.values()) > meta["budget"]["bytes"]:
            over.append((event, sum(held.values())))
    lib.check(name + "/never_over_the_budget", not over, over[:3])
    times = [e["time_ns"] for e in meta["budget_events"]]
    lib.check(name + "/history_in_order", times == sorted(times), times[:10])


def check_trigger(snapshot):
    trigger = snapshot.meta["trigger"]
    lib.check("trigger_record", trigger["kind"] == "sym" and trigger["comm"] == "worker-3" and
              trigger.get("symbol", "").startswith("trigger_here") and trigger["hit"] == 1 and
              [int(a, 16) if isinstance(a, str) else a for a in trigger["args"][:2]] == [3, 77],
              trigger)
    counts = snapshot.meta["counts"]
    lib.check("counts", len(counts) == 1 and counts[0]["hits"] == 1 and counts[0]["fires"] == 1 and
              counts[0]["attachments"] == 1, counts)
    evaluator = snapshot.meta["source"]["evaluator"]
    lib.check("evaluator_named", evaluator == ("bpf" if lib.may_bpf() else "soft"), evaluator)


def check_threads(snapshot):
    live = [t for t in snapshot.meta["threads"] if not t["exited"]]
    workers = [t for t in live if t["comm"].startswith("worker-")]
    lib.check("every_live_thread", len(live) == 9 and len(workers) == 8, live)
    lib.check("births_and_exits_counted", snapshot.meta["thread_counts"]["births"] >= 208 and
              snapshot.meta["thread_counts"]["exits"] >= 200, snapshot.meta["thread_counts"])
    decoded = snapshot.threads()
    absent = [t for t in live if not t["untraced"] and t["tid"] not in decoded]
    lib.check("every_traced_thread_is_decoded", not absent, absent)
    fired = [t["tid"] for t in snapshot.meta["threads"] if t["fired"]]
    lib.check("one_thread_fired", fired == [snapshot.fired_tid()], fired)


def check_end(snapshot):
    slices = snapshot.slices(snapshot.fired_tid())
    chain = [s.name for s in lib.last_chain(slices)]
    lib.check("chain_ends_in_the_trigger",
              chain[-4:] == ["work", "handle_job", "slow_path", "trigger_here"], chain)
    after = [s.name for s in slices if s.name == "after_trigger"]
    lib.check("nothing_after_it", not after and slices[-1].name == "trigger_here", slices[-3:])
    when = snapshot.meta["trigger"]["time_ns"]
    late = []
    for thread in snapshot.meta["threads"]:
        if thread["tid"] not in snapshot.threads():
            continue
        slack = thread["cut_error_ns"] + snapshot.meta["clock"]["max_error_ns"] + 1000
        seen = [s.begin for s in snapshot.slices(thread["tid"])]
        seen += [s.end for s in snapshot.slices(thread["tid"]) if s.end_edge == "seen"]
        if seen and max(seen) > when + slack:
            late.append((thread, max(seen) - when))
    lib.check("every_thread_is_cut_at_its_time", not late, late[:3])


def main():
    with lib.case("fires"):
        run = lib.record("--trigger", "sym:trigger_here", "--multi-thread", "--",
                         lib.program("workers"), "200", timeout=200)
        if lib.check("fires", run.code == 0 and len(run.snapshots) == 1, lib.describe(run)):
            snapshot = lib.Snapshot(run.snapshots[0])
            check_trigger(snapshot)
            check_threads(snapshot)
            check_end(snapshot)
            check_budget("budget", snapshot.meta)
            lib.check("command_status_reported", "wait_status" in snapshot.meta["target"] or
                      "exit" in run.err, lib.describe(run))
            lib.check("says_the_slow_down", "slow" in run.err, run.err)
    with lib.case("many/fires"):
        many()
    lib.finish()


def many():
    """1,000 threads under a budget that gives rings to 64."""
    if not lib.wanted("many"):
        return
    run = lib.record("--trigger", "sym:trigger_here", "--multi-thread", "--buffer", "1M", "--",
                     lib.program("many"), "1000", timeout=300)
    if not lib.check("many/fires", run.code == 0 and len(run.snapshots) == 1, lib.describe(run)):
        return
    meta = lib.Snapshot(run.snapshots[0]).meta
    rings = [t for t in meta["threads"] if t["ring_bytes"]]
    lib.check("many/at_most_64_rings", 0 < len(rings) <= 64, len(rings))
    untraced = [t for t in meta["threads"] if t["untraced"]]
    lib.check("many/all_threads_named", len(meta["threads"]) >= 1001, len(meta["threads"]))
    lib.check("many/untraced_counted_and_said", meta["thread_counts"]["untraced"] >= 900 and
              len(untraced) >= 900 and
              re.search(r"untraced|not traced", run.err),
              "%s %d\n%s" % (meta["thread_counts"], len(untraced), run.err[-1500:]))
    lib.check("many/summary_stays_readable", len(run.err.splitlines()) < 150,
              len(run.err.splitlines()))
    check_budget("many/budget", meta)


if __name__ == "__main__":
    main()
