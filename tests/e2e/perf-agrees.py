#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""perf and ptbpf decode the same snapshot to the same branches and instructions, thread by thread,
and perf has nothing to complain of. Code that is rewritten in place is left out: one image of it is
all that a file can hold."""
import os
import re
import shutil
import subprocess
import time

import lib

PROGRAMS = [("fixed", []), ("calls", []), ("signals", []), ("longjmps", []), ("exceptions", []),
            ("tailcalls", []), ("coroutines", []), ("panics", []), ("throws", []),
            ("workers", ["8", "1"]), ("many", ["50"]), ("dlopens", ["1"]), ("sigtraps", []),
            ("snapwork", [])]
# Each mode of the program with followed children: fork copies mappings, exec replaces them.
MODES = ["fork", "vfork", "spawn", "orphan", "exec", "thread-exec"]
LOST = re.compile(r"\s*(Warning:|AUX data lost \d+ times out of \d+!)?\s*$")


class Branch(tuple):
    """From and to. Where older bytes were overwritten we say where decoding begins; perf does not."""
    optional = False


def perf(path, what, fields):
    run = subprocess.run(["perf", "script", "-f", "-i", os.path.join(path, "perf.data"),
                          "--itrace=" + what, "-F", fields], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         env=dict(os.environ, PERF_BUILDID_DIR=lib.TMPDIR + "/buildid"))
    return run.returncode, run.stdout.decode(errors="replace"), run.stderr.decode(errors="replace")


def perf_branches(path):
    code, out, err = perf(path, "b", "tid,ip,addr")
    found = {}
    for line in out.splitlines():
        match = re.match(r"\s*(\d+)\s+([0-9a-f]+) => +([0-9a-f]+)$", line)
        if match:
            found.setdefault(int(match.group(1)), []).append((match.group(2), match.group(3)))
    return code, found, err


def our_branches(path):
    run = subprocess.run([lib.O + "/tests/tools/decode_branches", os.path.join(path, "perf.data"),
                          path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    found, gaps, before = {}, [], None
    for line in run.stdout.decode().splitlines():
        fields = line.split()
        tid = int(fields[0])
        if fields[1] == "gap":
            gaps.append(line)
        else:
            found.setdefault(tid, []).append(Branch((fields[1], fields[2])))
            found[tid][-1].optional = fields[3] == "begin" and before == fields[0] + " gap start"
        before = line
    return run.returncode, found, gaps, run.stderr.decode(errors="replace")


# Millions of lines: awk sorts them by thread into files, which are then compared.
PERF_LINE = '{ print $2 > (dir "/" $1) }'
OUR_LINE = ('{ for (i = 3; i <= NF; i++) if ($(i - 1) ~ /^[0-9.]+:$/) '
            '{ print $i > (dir "/" $(i - 2)); break } }')


def insns(command, line):
    """The directory of one file of addresses a thread, and how the command ended."""
    out = lib.new_dir("insns")
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    awk = subprocess.Popen(["awk", "-v", "dir=" + out, line], stdin=process.stdout)
    process.stdout.close()
    err = process.stderr.read().decode(errors="replace")
    awk.wait()
    return process.wait(), out, err


def addresses(directory, tid):
    try:
        with open(os.path.join(directory, tid)) as f:
            return f.read()
    except FileNotFoundError:
        return ""


def compare_insns(name, path, least, may_lose):
    code, theirs, err = insns(["perf", "script", "-f", "-i", os.path.join(path, "perf.data"),
                               "--itrace=i1i", "-F", "tid,ip"], PERF_LINE)
    ours_code, ours, ours_err = insns([lib.BIN, "decode", "--insn", path], OUR_LINE)
    wrong, count = [], 0
    for tid in sorted(set(os.listdir(theirs)) | set(os.listdir(ours))):
        a, b = addresses(theirs, tid), addresses(ours, tid)
        count += a.count("\n")
        if a != b:
            wrong.append("thread %s: %s" % (tid, lib.first_difference(a.split(), b.split())))
    bad = complaints(err, may_lose)
    lib.check(name + "/insns", code == 0 and ours_code == 0 and not wrong and not bad and
              count >= least, "%d instructions\n%s\n%s\n%s" % (
                  count, "\n".join(wrong), "\n".join(bad[:5]), ours_err[:500]))
    shutil.rmtree(theirs)
    shutil.rmtree(ours)


def differences(perfs, ours):
    wrong = []
    for tid in sorted(set(perfs) | set(ours)):
        a, b = list(perfs.get(tid, [])), list(ours.get(tid, []))
        at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), len(a))
        if at < len(b) and getattr(b[at], "optional", False):
            del b[at]
        if a != b:
            wrong.append("thread %d: perf has %d, we %d: %s" % (tid, len(a), len(b),
                                                                  lib.first_difference(a, b)))
    return "\n".join(wrong)


def complaints(err, may_lose):
    lines = err.splitlines()
    return [l for l in lines if l.strip() and not (may_lose and LOST.match(l))]


def compare(name, path, least, may_lose=False):
    code, theirs, err = perf_branches(path)
    ours_code, ours, gaps, ours_err = our_branches(path)
    wrong, bad = differences(theirs, ours), complaints(err, may_lose)
    count = sum(map(len, theirs.values()))
    lib.check(name + "/branches", code == 0 and ours_code == 0 and not wrong and not bad and
              count >= least, "%d branches\n%s\n%s\n%s\n%s" % (count, wrong, "\n".join(bad[:5]),
                                                               ours_err[:500], gaps[:5]))
    compare_insns(name, path, least, may_lose)


def stepped_plainly(name, on, off):
    """A snapshot that none of ptbpf's recording made; its instructions are known by themselves."""
    path = lib.new_dir("plain")
    subprocess.run([lib.O + "/tests/tools/mkrecording", path, "2", str(on), str(off),
                    lib.program("snapwork")], check=True, stdout=subprocess.DEVNULL)
    compare(name, path, 3000, may_lose=off != 0)


def recorded(name, program, args, *options):
    run = lib.record("--full-execution", "--multi-thread", *options, "--", lib.program(program),
                     *args, timeout=200)
    if run.code or len(run.snapshots) != 1:
        lib.check(name, False, lib.describe(run))
        return
    compare(name, run.snapshots[0], 300)


def triggered(name, program, args, *options, wraps=False):
    """Rings that wrapped, were resized and were cut at a fire."""
    run = lib.record(*options, "--multi-thread", "--", lib.program(program), *args, timeout=200)
    if run.code or not run.snapshots:
        lib.check("ring/" + name, False, lib.describe(run))
        return
    if wraps:
        threads = lib.Snapshot(run.snapshots[-1]).meta["threads"]
        lib.check("ring/%s/wraps" % name, any(t["wrapped"] for t in threads), threads)
    compare("ring/" + name, run.snapshots[-1], 100, may_lose=True)


def attached():
    """Threads that ran long before: their mappings and names were read, not seen to appear."""
    out = lib.new_dir()
    with lib.Victim(3) as victim:
        process = subprocess.Popen([lib.BIN, "-o", out, "--format", "json", "--multi-thread", "-t",
                                    "sym:rare", "-p", str(victim.pid)], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        lib.wait_until(lambda: all(lib.status_field(victim.pid, t, "TracerPid") != "0"
                                   for t in lib.tids(victim.pid)), 30)
        time.sleep(0.7)
        victim.call_rare()
        text, err = process.communicate(timeout=100)
        paths = lib.snapshots_in(text.decode())
        if process.returncode or not paths:
            lib.check("attached", False, err.decode(errors="replace"))
            return
        compare("attached", paths[0], 100, may_lose=True)


def main():
    bodies = [("plain/whole", lambda: stepped_plainly("plain/whole", 0, 0)),
              ("plain/gaps", lambda: stepped_plainly("plain/gaps", 150, 20))]
    bodies += [("full/" + p, lambda p=p, a=a: recorded("full/" + p, p, a)) for p, a in PROGRAMS]
    bodies += [("follow/" + m, lambda m=m: recorded("follow/" + m, "processes", [m],
                                                      "--follow-forks")) for m in MODES]
    bodies += [("ring/rebalance", lambda: triggered(
        "rebalance", "rebalance", [], "-t", "sym:trigger_here", "--buffer", "256K")),
               ("attached", attached),
               ("ring/small", lambda: triggered("small", "panics", [], "--buffer", "16K",
                                                wraps=True))]
    for name, body in bodies:
        if lib.wanted(name):
            with lib.case(name):
                body()
    lib.finish()


if __name__ == "__main__":
    main()
