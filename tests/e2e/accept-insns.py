#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""The instructions that are decoded are the instructions that were stepped, per thread, with no gap;
and both ways of stepping give the same bytes."""
import array
import os
import re

import lib

PROGRAMS = [("fixed", []), ("calls", []), ("signals", []), ("longjmps", []), ("exceptions", []),
            ("tailcalls", []), ("coroutines", []), ("jits", []), ("panics", []),
            ("workers", ["4", "1"]), ("dlopens", ["1"]), ("sigtraps", [])]

BOTH = ("fixed", "calls", "signals", "exceptions", "workers")


def stepped(directory):
    """{tid: addresses} of --insn-log."""
    found = {}
    for name in os.listdir(directory):
        tid = re.match(r"(\d+)", name)
        values = array.array("Q")
        with open(os.path.join(directory, name), "rb") as f:
            values.frombytes(f.read())
        if tid and len(values):
            found.setdefault(int(tid.group(1)), array.array("Q")).extend(values)
    return found


def decoded(path):
    """{tid: addresses} of decode --insn, and whatever it could not decode."""
    run = lib.ptbpf("decode", "--insn", path, timeout=200)
    found, odd = {}, []
    for line in run.out.splitlines():
        match = re.match(r"\s*\S.*?\s(\d+)\s+[\d.+-]+:?\s+(?:0x)?([0-9a-f]+)\b", line)
        if match:
            found.setdefault(int(match.group(1)), array.array("Q")).append(int(match.group(2), 16))
        elif "gap" in line:
            odd.append(line)
    return run, found, odd


def compare(want, got):
    wrong = []
    for tid in sorted(set(want) | set(got)):
        a, b = want.get(tid, array.array("Q")), got.get(tid, array.array("Q"))
        if a == b:
            continue
        at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        wrong.append("thread %d: %d stepped, %d decoded, first difference at %d: %s / %s" % (
            tid, len(a), len(b), at, [hex(x) for x in a[max(0, at - 2):at + 3]],
            [hex(x) for x in b[max(0, at - 2):at + 3]]))
    return wrong


def oracle(step, program, args):
    name = "%s/%s" % (step, program)
    if not lib.wanted(name):
        return
    log = lib.new_dir("insns")
    run = lib.record("--full-execution", "--multi-thread", "--soft-step", step, "--insn-log", log,
                     "--", lib.program(program), *args, timeout=200)
    if run.code or len(run.snapshots) != 1:
        lib.check(name, False, lib.describe(run))
        return
    want = stepped(log)
    decode, got, odd = decoded(run.snapshots[0])
    wrong = compare(want, got)
    total = sum(len(a) for a in want.values())
    lib.check(name, decode.code == 0 and not wrong and not odd and total > 1000,
              "%d instructions\n%s\n%s\n%s" % (total, "\n".join(wrong), odd[:5], decode.err[-800:]))
    meta = lib.Snapshot(run.snapshots[0]).meta
    if step == "verify":
        lib.check(name + "/no_disagreement", meta["source"]["disagreements"] == 0 and
                  meta["source"]["verified"] > 100, meta["source"])


def same_bytes(program):
    """One thread, no ASLR, a clock that counts steps: insn and block agree to the byte."""
    name = "same_bytes/" + program
    if not lib.wanted(name):
        return
    traces = {}
    for step in ("insn", "block"):
        run = lib.record("--full-execution", "--step-clock", "--no-aslr", "--soft-step", step, "--",
                         lib.program(program), timeout=200)
        if run.code or len(run.snapshots) != 1:
            lib.check(name, False, lib.describe(run))
            return
        chunks = lib.aux_chunks(os.path.join(run.snapshots[0], "perf.data"))
        traces[step] = b"".join(data for _, data in chunks)
    a, b = traces["insn"], traces["block"]
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    lib.check(name, len(a) > 100 and a == b, "%d and %d bytes, first difference at %d: %s / %s" % (
        len(a), len(b), at, a[at:at + 16].hex(), b[at:at + 16].hex()))


def main():
    for program, args in PROGRAMS:
        for step in ("insn", "verify") if program in BOTH else ("verify",):
            with lib.case("%s/%s" % (step, program)):
                oracle(step, program, args)
    for program in ("fixed", "tailcalls", "longjmps", "signals"):
        with lib.case("same_bytes/" + program):
            same_bytes(program)
    lib.finish()


if __name__ == "__main__":
    main()
