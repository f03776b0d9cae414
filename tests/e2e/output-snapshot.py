#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""One real snapshot in all formats: the same slices in each, real thread names, the fire where it
happened; and the same bytes again, whatever the number of workers."""
import collections
import os

import formats
import lib

FILES = {"perfetto": "trace.pftrace", "fxt": "trace.fxt", "json": "trace.json", "text": "trace.txt"}


def content(path):
    with open(path, "rb") as f:
        return f.read()


def json_slices(trace):
    return collections.Counter(
        (t["pid"], t["tid"], s["depth"], formats.clean(s["name"].encode()),
         trace["start_ns"] + s["begin_ns"], s["end_ns"] - s["begin_ns"])
        for t in trace["threads"] for s in t["slices"])


def check_formats(path):
    trace = lib.load_json(os.path.join(path, "trace.json"))
    meta = lib.load_json(os.path.join(path, "snapshot.json"))
    want = json_slices(trace)
    lib.check("something_to_compare", sum(want.values()) > 1000, sum(want.values()))
    perfetto = formats.read_perfetto(os.path.join(path, "trace.pftrace"))
    lib.check("perfetto_equals_json", collections.Counter(perfetto.slices) == want)
    fxt = formats.read_fxt(os.path.join(path, "trace.fxt"))
    lib.check("fxt_equals_json", collections.Counter(fxt.slices) == want)
    comms = {t["tid"]: t["comm"] for t in meta["threads"]}
    lib.check("threads_have_their_names", len(comms) > 3 and all(
        comms.get(tid) == comm for tid, comm in perfetto.threads.items()),
        (comms, perfetto.threads))
    fires = [i for i in perfetto.instants if i[1] == "fire"]
    trigger = meta["trigger"]
    lib.check("the_fire_is_an_instant_on_its_thread", len(fires) == 1 and
              fires[0][0][1] == trigger["tid"] and fires[0][2] == trigger["time_ns"], fires)
    text = content(os.path.join(path, "trace.txt")).decode()
    last = text.rstrip("\n").split("\n")[-1]
    lib.check("text_ends_in_the_chain_of_the_fire", last.startswith("  at the end in: ") and
              last.endswith(" > trigger_here"), last)
    lib.check("text_has_all_slices", sum(line[:18].rstrip().endswith(" us") and "***" not in line
                                         and "--- gap" not in line
                                         for line in text.split("\n")) == sum(want.values()))


def check_again(path):
    all_cpus = os.sched_getaffinity(0)
    for name, cpus in (("one_worker", {min(all_cpus)}), ("many_workers", all_cpus)):
        out = lib.new_dir()
        os.sched_setaffinity(0, cpus)
        run = lib.ptbpf("decode", "--format", ",".join(FILES), "-o", out, path)
        os.sched_setaffinity(0, all_cpus)
        differ = [f for f in FILES.values()
                  if not os.path.exists(os.path.join(out, f)) or
                  content(os.path.join(out, f)) != content(os.path.join(path, f))]
        lib.check("same_bytes_with_" + name, run.code == 0 and not differ,
                  "%s\n%s" % (differ, lib.describe(run)))


def main():
    with lib.case("snapshot"):
        run = lib.ptbpf("-o", lib.new_dir(), "--format", ",".join(FILES), "-t", "sym:trigger_here",
                        "--multi-thread", "--", lib.program("workers"), "20", timeout=200)
        if lib.check("snapshot", run.code == 0 and len(run.snapshots) == 1, lib.describe(run)):
            check_formats(run.snapshots[0])
            check_again(run.snapshots[0])
    lib.finish()


if __name__ == "__main__":
    main()
