#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""The calls that are decoded from a whole run are the calls that the program says it made, and those
that callgrind counts."""
import collections
import os
import re
import subprocess

import lib

# program, arguments, whether its threads' logs nest (coroutines' do not)
PROGRAMS = [
    ("calls", [], True), ("tailcalls", [], True), ("fixed", [], True), ("signals", [], True),
    ("longjmps", [], True), ("exceptions", [], True), ("coldparts", [], True),
    ("panics", [], True), ("jits", [], True),
    ("dlopens", [], True), ("sigtraps", [], True), ("coroutines", [], False),
    ("workers", ["20", "3"], True), ("rebalance", [], True), ("watches", [], True),
]

DYNAMIC = ("calls", "panics")


def whole_run(name, args):
    truth_file = os.path.join(lib.new_dir("truth"), "log")
    run = lib.record("--full-execution", "--multi-thread", "--", lib.program(name), *args,
                     env={"PTBPF_TRUTH": truth_file}, timeout=200)
    if not lib.check(name + "/runs", run.code == 0 and len(run.snapshots) == 1, lib.describe(run)):
        return None, None
    snapshot = lib.Snapshot(run.snapshots[0])
    target = snapshot.meta["target"]
    lib.check(name + "/target_unharmed", target.get("exited") and target.get("wait_status") == 0,
              target)
    return snapshot, lib.read_truth(truth_file)


def check_counts(name, threads, truth):
    seen = collections.Counter()
    for thread in threads.values():
        for s in thread["slices"]:
            # a coroutine that goes on is shown again, but not called again
            if s.name in truth.functions and s.begin_edge != "switched":
                seen[s.name] += 1
    want = lib.truth_counts(truth)
    lib.check(name + "/counts_equal_own_counters", not truth.lost and seen == want,
              "decoded: %s\ncounted: %s" % (sorted((seen - want).items()),
                                            sorted((want - seen).items())))


def check_nesting(name, threads, truth):
    wrong = []
    for tid, want in lib.truth_calls(truth).items():
        if tid not in threads:
            wrong.append("thread %d is not in the snapshot" % tid)
            continue
        slices = threads[tid]["slices"]
        got = lib.sliced_calls(slices, set(truth.functions))
        if got != want:
            wrong.append("thread %d: %s" % (tid, lib.first_difference(got, want)))
    lib.check(name + "/slices_equal_own_log", not wrong, "\n".join(wrong))


def check_edges(name, threads):
    """Without gaps, only frames open at the very start or end may be inferred."""
    wrong = []
    for tid, thread in threads.items():
        if thread.get("gaps"):
            wrong.append("thread %d has gaps: %s" % (tid, thread["gaps"][:3]))
        slices = thread["slices"]
        if not slices:
            continue
        first, last = min(s.begin for s in slices), max(s.end for s in slices)
        for s in slices:
            if s.begin_edge == "inferred" and s.begin > first:
                wrong.append("thread %d: begin of %s" % (tid, s.name))
            if s.end_edge == "inferred" and s.end < last:
                wrong.append("thread %d: end of %s" % (tid, s.name))
            if s.end < s.begin:
                wrong.append("thread %d: %s ends before it begins" % (tid, s.name))
    lib.check(name + "/inferred_only_at_start_and_end", not wrong, "\n".join(wrong))


def callgrind_counts(name, args):
    """{function: calls} into functions of the main object."""
    out = os.path.join(lib.new_dir("callgrind"), "out")
    subprocess.run(["valgrind", "-q", "--tool=callgrind", "--compress-strings=no",
                    "--compress-pos=no", "--callgrind-out-file=" + out, lib.program(name)] + args,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
                   env=dict(os.environ, PTBPF_TRUTH=out + "-truth"))
    counts, own, called = collections.Counter(), None, None
    with open(out, errors="replace") as f:
        for line in f:
            key, _, value = line.rstrip("\n").partition("=")
            if key == "ob":
                own = value
                called = None
            elif key == "cob":
                called = value
            elif key == "cfn":
                function, target, called = value, called or own, None
            elif key == "calls" and os.path.basename(target) == name:
                counts[lib.plain_name(re.sub(r"'\d+$", "", function))] += int(value.split()[0])
    return counts


def check_callgrind(name, args, threads, truth):
    want = callgrind_counts(name, args)
    seen = collections.Counter()
    for thread in threads.values():
        for s in thread["slices"]:
            if os.path.basename(s.object) == name:
                seen[s.name] += 1
    # callgrind calls a jump to another function a call, too: so do our slices
    names = set(truth.functions)
    different = ["%s: %d decoded, callgrind %d" % (f, seen[f], want[f])
                 for f in sorted(names) if seen[f] != want[f]]
    lib.check(name + "/counts_equal_callgrind", not different, "\n".join(different))
    # A static program's libc takes other ways under valgrind, whose processor has other features.
    rest = ["%s: %d decoded, callgrind %d" % (f, seen[f], want[f])
            for f in sorted((set(seen) & set(want)) - names) if seen[f] != want[f]]
    print("\n".join("other function of the main object, " + line for line in rest))
    if name in DYNAMIC:
        lib.check(name + "/other_functions_equal_callgrind", not rest, "\n".join(rest))


def main():
    for name, args, nests in PROGRAMS:
        if not any(lib.wanted(name + case) for case in ("", "/runs")):
            continue
        with lib.case(name + "/runs"):
            snapshot, truth = whole_run(name, args)
            if not snapshot:
                continue
            threads = snapshot.threads()
            check_counts(name, threads, truth)
            check_edges(name, threads)
            if nests:
                check_nesting(name, threads, truth)
            if name in ("calls", "tailcalls", "fixed", "exceptions", "panics"):
                check_callgrind(name, args, threads, truth)
    lib.finish()


if __name__ == "__main__":
    main()
