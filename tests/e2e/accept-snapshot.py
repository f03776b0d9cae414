#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""The snapshot: private, never overwriting, readable by perf, decodable after a move, the same every
time; and what --start-at, --thread and friends leave of it."""
import os
import re
import shutil
import stat
import subprocess

import lib

COMPLAINT = re.compile(r"warning|error|fail|lost|corrupt|invalid|unknown", re.I)


def perf(*args):
    run = subprocess.run(["perf", "script", "-f"] + list(args), stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    return run.returncode, run.stdout.decode(errors="replace"), run.stderr.decode(errors="replace")


def read_by_perf(path, functions):
    data = os.path.join(path, "perf.data")
    for what in ("b", "i1i"):
        code, out, err = perf("-i", data, "--itrace=" + what, "-F", "comm,tid,ip,sym,flags")
        bad = [l for l in (err + "\n" + out).splitlines()
               if COMPLAINT.search(l) and "instruction trace error" in l.lower() or
               COMPLAINT.search(l) and l in err]
        lib.check("perf_itrace_%s/no_complaint" % what, code == 0 and not bad,
                  "exit %d\n%s" % (code, "\n".join(bad[:10]) or err[:500]))
        absent = [f for f in functions if not re.search(r"\b%s\b" % f, out)]
        lib.check("perf_itrace_%s/functions_named" % what, not absent, "%s\n%s" % (absent, out[:600]))


def decoded(path, out, form="json", *options):
    run = lib.ptbpf("decode", "--format", form, "-o", out, *options, path)
    return run


def files(directory):
    found = {}
    for root, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(root, name)
            with open(path, "rb") as f:
                found[os.path.relpath(path, directory)] = f.read()
    return found


def moved(path):
    first, second, third = lib.new_dir("a"), lib.new_dir("b"), lib.new_dir("c")
    run = decoded(path, first, "json,text,perfetto")
    lib.check("decode/works", run.code == 0, lib.describe(run))
    decoded(path, second, "json,text,perfetto")
    a, b = files(first), files(second)
    lib.check("decode/same_every_time", a and a == b, sorted(a) + sorted(b))
    elsewhere = os.path.join(lib.new_dir("elsewhere"), "moved")
    shutil.copytree(path, elsewhere)
    os.rename(path, path + "-away")
    run = decoded(elsewhere, third, "json,text,perfetto")
    lib.check("moved/decodes", run.code == 0, lib.describe(run))
    lib.check("moved/byte_identical", files(third) == a, sorted(files(third)))
    os.rename(path + "-away", path)
    for name in ("trace.json",):
        kept = os.path.join(path, name)
        if os.path.exists(kept) and a:
            with open(kept, "rb") as f:
                lib.check("decode/equals_what_record_wrote", f.read() in a.values())


def missing_binary():
    program = os.path.join(lib.new_dir("bin"), "short-lived")
    shutil.copy(lib.program("fixed"), program)
    run = lib.record("--", program)
    lib.check("missing_binary/recorded", run.code == 0 and run.snapshots, lib.describe(run))
    os.rename(program, program + "-away")
    again = decoded(run.snapshots[0], lib.new_dir())
    lib.check("missing_binary/named_and_8", again.code == 8 and "short-lived" in again.err,
              lib.describe(again))
    shutil.copy(lib.program("calls"), program)
    again = decoded(run.snapshots[0], lib.new_dir())
    lib.check("other_binary/build_id_checked", again.code == 8 and "short-lived" in again.err,
              lib.describe(again))


def private_and_new():
    out = lib.new_dir()
    paths = []
    for _ in range(3):
        run = lib.record("--", lib.program("fixed"), out=out)
        paths += run.snapshots
    lib.check("never_overwritten", len(set(paths)) == 3 and len(os.listdir(out)) == 3,
              os.listdir(out))
    mode = stat.S_IMODE(os.stat(paths[0]).st_mode)
    lib.check("mode_0700", mode == 0o700, oct(mode))
    name = os.path.basename(paths[0])
    lib.check("name", re.match(r".*fixed-\d{8}-\d{6}-\d+$", name), name)
    missing = [f for f in ("perf.data", "snapshot.json", "trace.json")
               if not os.path.isfile(os.path.join(paths[0], f))]
    lib.check("files", not missing, os.listdir(paths[0]))
    run = lib.ptbpf("-o", out, "--", lib.program("fixed"))
    lib.check("default_is_perfetto", run.snapshots and os.path.getsize(
        os.path.join(run.snapshots[0], "trace.pftrace")) > 100, lib.describe(run))
    lib.check("results_on_stdout_only", run.out.strip().splitlines() ==
              [p for p in run.out.strip().splitlines() if p.startswith("/") or os.path.isdir(p)],
              run.out)
    if os.geteuid() == 0:
        mine = lib.new_dir()
        run = lib.ptbpf("-o", os.path.join(mine, "deep/er"), "--", lib.program("fixed"),
                        env={"SUDO_UID": "12345", "SUDO_GID": "23456"})
        foreign = [p for p in [os.path.join(r, n) for r, d, f in os.walk(mine) for n in d + f]
                   if (os.stat(p).st_uid, os.stat(p).st_gid) != (12345, 23456)]
        lib.check("under_sudo_the_users_own", run.code == 0 and run.snapshots and not foreign,
                  "%s\n%s" % (foreign, lib.describe(run)))


def start_at():
    run = lib.record("--start-at", "sym:sorting", "--", lib.program("calls"))
    if not lib.check("start_at/snapshot", run.code == 0 and run.snapshots, lib.describe(run)):
        return
    snapshot = lib.Snapshot(run.snapshots[0])
    slices = [s for t in snapshot.timeline()["threads"] for s in t["slices"]]
    names = [s.name for s in slices]
    lib.check("start_at/nothing_before", "fib" not in names and names.count("sorting") == 1 and
              names.count("compare") > 20, names[:20])


def filters(path):
    out = lib.new_dir()
    run = decoded(path, out, "json", "--depth", "1")
    tree = lib.load_json(os.path.join(out, "trace.json"))
    depths = {s["depth"] for t in tree["threads"] for s in t["slices"]}
    lib.check("filter/depth", run.code == 0 and depths == {0}, (depths, run.err))
    tid = lib.load_json(os.path.join(path, "snapshot.json"))["trigger"]["tid"]
    out = lib.new_dir()
    run = decoded(path, out, "json", "--thread", str(tid))
    tree = lib.load_json(os.path.join(out, "trace.json"))
    lib.check("filter/thread", run.code == 0 and [t["tid"] for t in tree["threads"]
                                                  if t["slices"]] == [tid], run.err)
    out = lib.new_dir()
    run = decoded(path, out, "text", "--from", "-50us")
    text = "".join(v.decode() for v in files(out).values()) + run.out
    lib.check("filter/from", run.code == 0 and "trigger_here" in text, text[:500] + run.err)


def main():
    with lib.case("snapshot"):
        run = lib.record("-t", "sym:trigger_here", "--multi-thread", "--", lib.program("rebalance"))
        if lib.check("snapshot", run.code == 0 and run.snapshots, lib.describe(run)):
            path = run.snapshots[0]
            with lib.case("perf"):
                read_by_perf(path, ["marker_before_rebalance", "marker_after_rebalance"])
            with lib.case("moved"):
                moved(path)
            with lib.case("filter"):
                filters(path)
    for body in (missing_binary, private_and_new, start_at):
        with lib.case(body.__name__):
            body()
    lib.finish()


if __name__ == "__main__":
    main()
