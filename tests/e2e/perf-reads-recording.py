#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""perf reads the files that perf_data_write() makes: the instructions that were stepped, the names,
the images, no word of complaint. The recordings come from tests/tools/mkrecording, not from ptbpf."""
import os
import re
import subprocess
import sys

O, TMPDIR = os.environ["O"], os.environ["TMPDIR"]
PROGRAM = os.environ["PROGRAMS"] + "/snapwork"
ENV = dict(os.environ, HOME=TMPDIR, PERF_BUILDID_DIR=TMPDIR + "/debug", PAGER="cat")
failed = []


def check(name, ok, detail=""):
    print(("PASS " if ok else "FAIL ") + "e2e/perf-reads-recording/" + name)
    if not ok:
        failed.append(name)
        print("    " + str(detail)[:2000])


def perf(directory, *args):
    done = subprocess.run(["perf", args[0], "-i", directory + "/perf.data", *args[1:]],
                          capture_output=True, text=True, env=ENV, errors="replace")
    return done.returncode, done.stdout, done.stderr


def record(name, runs, on, off):
    directory = f"{TMPDIR}/{name}"
    subprocess.run([O + "/tests/tools/mkrecording", directory, str(runs), str(on), str(off), PROGRAM],
                   check=True, stdout=subprocess.DEVNULL)
    return directory


def instructions_by_tid(directory):
    status, out, err = perf(directory, "script", "--itrace=i1i", "-F", "tid,ip")
    by_tid = {}
    for line in out.splitlines():
        tid, ip = line.split()
        by_tid.setdefault(tid, []).append(ip)
    return status, by_tid, err


def stepped(directory, tid):
    with open(f"{directory}/insns.{tid}") as file:
        return file.read().split()


def first_difference(a, b):
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return f"{len(a)} and {len(b)} instructions, different from {at}: {a[at:at+3]} {b[at:at+3]}"


whole = record("whole", 2, 0, 0)
status, by_tid, err = instructions_by_tid(whole)
check("no-complaint-on-instructions", status == 0 and err == "", err)
for tid in ("100001", "100002"):
    want = stepped(whole, tid)
    check(f"instructions-of-{tid}", len(want) > 20000 and by_tid.get(tid) == want,
          first_difference(by_tid.get(tid, []), want))

status, out, err = perf(whole, "script", "--itrace=b")
check("no-complaint-on-branches", status == 0 and err == "" and "instruction trace error" not in out, err)
for name, symbol, at in (("file", "fibonacci", PROGRAM), ("vdso", "__vdso_clock_gettime", "/images/vdso-"),
                         ("anonymous", "anon-", "/images/anon-"), ("mapped-later", "leaf", PROGRAM)):
    check(f"names-{name}", re.search(rf"=> +[0-9a-f]+ {re.escape(symbol)}\S* \(\S*{re.escape(at)}", out))
check("times-lie-in-the-run", all(float(t) < 1e7 for t in re.findall(r" (\d+\.\d+): +1 +branches", out)[::50]))

status, out, err = perf(whole, "script", "--show-mmap-events", "--show-task-events")
maps = [line for line in out.splitlines() if "PERF_RECORD_MMAP2" in line]
check("mmap-events-have-build-ids", len(maps) >= 16 and all(re.search(r"<[0-9a-f]{40}>", m) for m in maps), maps)
check("task-events", "PERF_RECORD_COMM exec: run0" in out and "PERF_RECORD_FORK(100001:100002)" in out
      and "PERF_RECORD_EXIT(100001:100002)" in out, err)
check("default-script-has-no-error", status == 0 and err == "" and "trace error" not in out, err)

status, out, err = perf(whole, "report", "--itrace=i100i", "--stdio", "--sort", "comm,sym")
check("report", status == 0 and "fibonacci" in out and "run1" in out, out + err)
status, out, err = perf(whole, "buildid-list")
check("buildid-list", status == 0 and f"{PROGRAM}" in out and "/images/vdso-" in out, out + err)
status, out, err = perf(whole, "script", "--header-only")
check("header", status == 0 and err == "" and all(
    word in out for word in ("hostname :", "os release :", "arch :", "cpuid : GenuineIntel,6,85,7",
                             "cmdline : ", "event : name = intel_pt//u", "intel_pt = 8")), out + err)
status, out, err = perf(whole, "evlist")
check("evlist", status == 0 and "intel_pt//u" in out and "dummy:u" in out, out + err)
injected = f"{TMPDIR}/injected"
os.mkdir(injected)
status, out, err = perf(whole, "inject", "--itrace=i1i", "--strip", "-o", injected + "/perf.data")
check("inject", status == 0 and err == "", err)
status, out, err = perf(injected, "script", "-F", "tid,ip")
check("injected-instructions", status == 0 and len(out.splitlines()) == sum(map(len, by_tid.values())), err)

# Gaps: nothing may be invented across them, and perf's "lost" only where something was lost.
gaps = record("gaps", 2, 2000, 300)
status, by_tid, err = instructions_by_tid(gaps)
words = [line for line in err.splitlines() if line and line != "Warning:"]
check("only-lost-data-is-complained-of", status == 0 and len(words) == 1 and
      re.fullmatch(r"AUX data lost \d+ times out of \d+!", words[0]), err)
for tid in ("100001", "100002"):
    want = stepped(gaps, tid)
    check(f"instructions-around-gaps-of-{tid}", len(want) > 20000 and by_tid.get(tid) == want,
          first_difference(by_tid.get(tid, []), want))
sys.exit(bool(failed))
