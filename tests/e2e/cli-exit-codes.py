#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Every exit code of the README's table, one by one, as the user who runs the test and (as root) as
an ordinary user too: code, and exactly one error message on stderr that names the thing."""
import json
import os
import re
import shutil

import lib

PSB = b"\x02\x82" * 8


def damaged(snapshot):
    """A copy of the snapshot whose trace has impossible packets after a PSB."""
    copy = os.path.join(lib.new_dir("damaged"), "snapshot")
    shutil.copytree(snapshot, copy)
    path = os.path.join(copy, "perf.data")
    with open(path, "rb") as f:
        data = bytearray(f.read())
    at = data.find(PSB)
    assert at > 0, "no PSB in perf.data"
    at = data.find(PSB, at + 16) if data.find(PSB, at + 16) > 0 else at
    data[at + 32:at + 96] = b"\x02\xff" * 32
    with open(path, "wb") as f:
        f.write(data)
    give(copy, os.stat(snapshot))
    return copy


def give(directory, owner):
    for root, dirs, files in os.walk(directory):
        for entry in [root] + [os.path.join(root, f) for f in dirs + files]:
            os.chown(entry, getattr(owner, "st_uid", owner), getattr(owner, "st_gid", owner))


def errors(text):
    return [line for line in text.splitlines() if re.match(r"ptbpf: (?!warning: )", line)]


def table(fixed, snapshot):
    """(case, code, what the message says, arguments); {out} is a fresh directory."""
    begun = os.path.join(lib.new_dir("begun", 0o777), "begun")
    garbage = os.path.join(lib.new_dir("garbage"), "perf.data")
    with open(garbage, "wb") as f:
        f.write(b"no perf.data at all" * 50)
    os.chmod(garbage, 0o755)
    return [
        ("done", 0, None, ["-q", "-o", "{out}", "--", fixed]),
        ("done_help", 0, None, ["--help"]),
        ("done_help_of_a_command", 0, None, ["decode", "--help"]),
        ("done_version", 0, None, ["--version"]),
        ("done_doctor", 0, None, ["doctor"]),
        ("done_decode", 0, None, ["decode", "-o", "{out}", snapshot]),
        ("done_plan", 0, None, ["plan", "-t", "collatz", "--", fixed]),
        ("failed_non_elf", 1, garbage, ["-o", "{out}", "--", garbage]),
        ("failed_garbage", 1, garbage, ["decode", garbage]),
        ("usage_nothing", 2, "--help", []),
        ("usage_option", 2, "--nonsense", ["--nonsense", "--", fixed]),
        ("usage_trigger", 2, "bogus", ["-t", "bogus:x", "--", fixed]),
        ("usage_buffer_0", 2, "--buffer 0", ["--buffer", "0", "--", fixed]),
        ("usage_buffer_negative", 2, "--buffer -1", ["--buffer", "-1", "--", fixed]),
        ("usage_buffer_text", 2, "--buffer abc", ["--buffer", "abc", "--", fixed]),
        ("usage_format", 2, "pdf", ["--format", "pdf", "--", fixed]),
        ("usage_decode", 2, "decode what", ["decode"]),
        ("unsupported_source", 3, "hw", ["--source", "hw", "-o", "{out}", "--", fixed]),
        ("unsupported_trigger", 3, "usdt", ["-t", "usdt:a:b", "--", fixed]),
        ("permission_directory", 4, "/tmp", ["--", "/tmp"]),
        ("not_found_command", 5, "no-such-command", ["--", "no-such-command"]),
        ("not_found_symbol", 5, "colatz", ["-o", "{out}", "-t", "colatz", "--", fixed]),
        ("not_found_pid", 5, "4194303", ["-p", "4194303"]),
        ("not_found_snapshot", 5, "/no/such", ["decode", "/no/such"]),
        ("limit_buffer", 6, "256T", ["--buffer", "300T", "-o", "{out}", "--", "touch", begun]),
        ("no_fire", 7, "", ["-o", "{out}", "-t", "sym:abort", "--", fixed]),
        ("decode_gaps", 8, None, ["decode", "-o", "{out}", damaged(snapshot)]),
    ], begun


def run_table(prefix, fixed, snapshot, **options):
    rows, begun = table(fixed, snapshot)
    for name, code, says, args in rows:
        if not lib.wanted(prefix + name):
            continue
        out = lib.new_dir("out", 0o777)
        os.chmod(out, 0o777)
        if code not in (0, 2):
            args = args[:1] + ["-q"] + args[1:] if args[0] in ("decode", "plan") else ["-q"] + args
        run = lib.ptbpf(*[a.replace("{out}", out) for a in args], timeout=90, **options)
        said = errors(run.err)
        good = run.code == code
        if code not in (0, 7, 8):
            good = good and len(said) == 1 and says in said[0]
        if code in (0, 7) and "-q" in args:
            good = good and not said
        lib.check(prefix + name, good, "wanted %d and '%s'\n%s" % (code, says, lib.describe(run)))
    lib.check(prefix + "limit_starts_nothing", not os.path.exists(begun))


def other_user(fixed):
    """What only an ordinary user can be refused."""
    with lib.Victim(1) as victim:
        run = lib.ptbpf("-p", victim.pid, uid=lib.NOBODY, cwd="/", timeout=60)
        lib.check("user/permission_other_pid", run.code == 4 and len(errors(run.err)) == 1 and
                  str(victim.pid) in run.err, lib.describe(run))
        victim.end()
    run = lib.ptbpf("-o", "/root/x", "--", fixed, uid=lib.NOBODY, cwd="/", timeout=60)
    lib.check("user/permission_output", run.code == 4 and len(errors(run.err)) == 1,
              lib.describe(run))
    run = lib.ptbpf("--user", "root", "--", fixed, uid=lib.NOBODY, cwd="/", timeout=60)
    lib.check("user/permission_user", run.code == 4 and len(errors(run.err)) == 1,
              lib.describe(run))


def documented():
    """README and --help name all of them, and the doctor's JSON keeps its promise."""
    with open(os.path.join(lib.ROOT, "README.md")) as f:
        readme = f.read()
    absent = [c for c in range(9) if not re.search(r"^\| %d \|" % c, readme, re.M)]
    lib.check("documented_in_readme", not absent, absent)
    run = lib.ptbpf("--help")
    absent = [c for c in range(9) if not re.search(r"\b%d [a-z]" % c, run.out)]
    lib.check("documented_in_help", not absent, run.out)
    run = lib.ptbpf("help", "record")
    with open(os.path.join(lib.ROOT, "docs/ptbpf.1")) as f:
        manual = f.read().replace("\\-", "-")
    options = set()
    for command in ("record", "decode", "plan", "doctor"):
        run = lib.ptbpf("help", command)
        options |= set(re.findall(r"^ +(?:-.,)? +--([a-z-]+)", run.out, re.M))
    for name, text in (("readme", readme), ("manual", manual)):
        absent = options - set(re.findall(r"--([a-z][a-z-]+)", text))
        lib.check("options_in_" + name, len(options) > 20 and not absent, absent)
    with open(os.path.join(lib.ROOT, "Makefile")) as f:
        makefile = f.read().replace("\\\n", " ")
    packages = " ".join(re.findall(r"^DEPS_(?:BUILD|TEST) := (.*)$", makefile, re.M)).split()
    absent = [p for p in packages if not re.search(r"(?<![\w-])%s(?![\w-])" % re.escape(p), readme)]
    lib.check("packages_in_readme", len(packages) > 15 and not absent, absent)
    report = json.loads(lib.ptbpf("doctor", "--json").out)
    lib.check("doctor_json", report["works"] is True and report["version"] == 1 and
              all({"id", "status", "found", "meaning", "remedy"} <= set(c) for c in
                  report["checks"]), report)


def main():
    fixed = lib.program("fixed")
    run = lib.ptbpf("-q", "-o", lib.new_dir(), "--", fixed)
    if not lib.check("a_snapshot_to_begin_with", len(run.snapshots) == 1, lib.describe(run)):
        lib.finish()
    with lib.case("table"):
        run_table("", fixed, run.snapshots[0])
    with lib.case("documented"):
        documented()
    if os.geteuid() == 0:
        copy = os.path.join(lib.new_dir("theirs"), "snapshot")
        shutil.copytree(run.snapshots[0], copy)
        give(copy, lib.NOBODY)
        with lib.case("user"):
            run_table("user/", fixed, copy, uid=lib.NOBODY, cwd="/")
            other_user(fixed)
    lib.finish()


if __name__ == "__main__":
    main()
