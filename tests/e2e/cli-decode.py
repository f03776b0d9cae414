#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""ptbpf decode: where it writes, that nothing is overwritten, what it reads, its filters and --insn."""
import json
import os
import re
import shutil
import subprocess

import lib


def outputs(path):
    run = lib.ptbpf("decode", "--format", "json", path)
    document = json.loads(run.out)
    lib.check("json_to_stdout", run.code == 0 and document, run.err)
    lib.check("stdout_is_the_document_alone", run.out.lstrip().startswith("{") and not [
        l for l in run.err.splitlines() if "wrote" in l], run.err)
    text = lib.ptbpf("decode", "--format", "text", path)
    lib.check("text_to_stdout", text.code == 0 and "collatz" in text.out, lib.describe(text))
    both = lib.ptbpf("decode", "--format", "text,json", path)
    lib.check("two_documents_do_not_share_stdout", both.code == 2, lib.describe(both))
    out = os.path.join(lib.new_dir(), "made")
    run = lib.ptbpf("decode", "--format", "text,json,perfetto,fxt", "-o", out, path)
    names = sorted(os.listdir(out))
    lib.check("all_into_a_directory", run.code == 0 and len(names) == 4 and
              sorted(run.out.split()) == [os.path.join(out, n) for n in names],
              "%s\n%s" % (names, lib.describe(run)))
    with open(os.path.join(out, "trace.txt")) as f:
        lib.check("file_and_stdout_are_the_same", f.read() == text.out)
    dash = subprocess.run([lib.BIN, "decode", "-o", "-", path], stdout=subprocess.PIPE)
    with open(os.path.join(out, "trace.pftrace"), "rb") as f:
        lib.check("dash_is_stdout", dash.stdout == f.read())
    left = [n for n in os.listdir(path) + os.listdir(out) if n.startswith(".")]
    lib.check("no_temporary_file_is_left", not left, left)


def overwriting(path):
    first = os.path.join(path, "trace.pftrace")
    with open(first, "rb") as f:
        before = f.read()
    run = lib.ptbpf("decode", path)
    lib.check("equal_file_is_left_alone", run.code == 0 and run.out.strip() == first and
              not os.path.exists(os.path.join(path, "trace-2.pftrace")), lib.describe(run))
    run = lib.ptbpf("decode", "--depth", "1", path)
    second = os.path.join(path, "trace-2.pftrace")
    with open(first, "rb") as f:
        same = f.read() == before
    lib.check("different_file_gets_a_number", run.out.strip() == second and
              os.path.getsize(second) < len(before) and same, lib.describe(run))
    os.unlink(second)


def inputs(path):
    whole = lib.ptbpf("decode", "--format", "text", path)
    by_file = lib.ptbpf("decode", "--format", "text", os.path.join(path, "perf.data"))
    lib.check("perf_data_by_name", by_file.out == whole.out, lib.describe(by_file))
    inside = lib.ptbpf("decode", "--format", "text", ".", cwd=path)
    lib.check("from_inside", inside.out == whole.out, lib.describe(inside))
    bare = lib.new_dir("bare")
    shutil.copy(os.path.join(path, "perf.data"), bare)
    run = lib.ptbpf("decode", "--format", "text", bare)
    lib.check("without_snapshot_json", run.code in (0, 8) and "collatz" in run.out,
              lib.describe(run))
    cut = lib.new_dir("cut")
    with open(os.path.join(path, "perf.data"), "rb") as f:
        data = f.read()
    for size in (0, 7, 100, len(data) // 2, len(data) - 1):
        with open(os.path.join(cut, "perf.data"), "wb") as f:
            f.write(data[:size])
        run = lib.ptbpf("decode", "--format", "text", cut)
        # a cut in the features behind the data costs nothing
        good = (run.code == 8 and "cut off" in run.err) or (
            run.code == 0 and size == len(data) - 1)
        lib.check("cut_at_%s" % (size if size < 200 else "end" if size == len(data) - 1 else
                                 "half"), good or (run.code == 1 and not run.out),
                  lib.describe(run))


def missing_binary():
    """The program is gone after the recording: named, and found again with --symfs."""
    place = lib.new_dir("program", 0o777)
    copy = os.path.join(place, "fixed-copy")
    shutil.copy(lib.program("fixed"), copy)
    path = lib.ptbpf("-q", "-o", lib.new_dir(), "--", copy).snapshots[0]
    good = lib.ptbpf("decode", "--format", "text", path)
    symfs = lib.new_dir("symfs")
    os.makedirs(symfs + place)
    os.rename(copy, symfs + copy)
    run = lib.ptbpf("decode", "--format", "text", path)
    lib.check("missing_binary_is_named", run.code == 8 and copy in run.err and "--symfs" in run.err,
              lib.describe(run))
    run = lib.ptbpf("decode", "--format", "text", "--symfs", symfs, path)
    lib.check("symfs_finds_it", run.code == 0 and run.out == good.out, lib.describe(run))
    with open(symfs + copy, "r+b") as f:
        data = f.read()
        at = data.find(b"\x14\0\0\0\x03\0\0\0GNU\0") + 8
        f.seek(at + 4)
        f.write(bytes(20))
    run = lib.ptbpf("decode", "--format", "text", "--symfs", symfs, path)
    lib.check("another_build_id_is_refused", copy in run.err and "build-id" in run.err,
              lib.describe(run))


def instructions(path):
    run = lib.ptbpf("decode", "--insn", path)
    lines = run.out.splitlines()
    form = re.compile(r"^\S.* \d+ \d+\.\d{9}: +[0-9a-f]+ \S.* \(\S+\)$")
    lib.check("insn_lines", run.code == 0 and len(lines) > 100 and
              all(form.match(l) for l in lines[:2000]), "\n".join(lines[:5]) + run.err)
    lib.check("insn_names_functions", " collatz+0x0 (fixed)" in run.out, "\n".join(lines[-5:]))
    none = lib.ptbpf("decode", "--insn", "--thread", "1", path)
    lib.check("insn_obeys_thread", none.code == 0 and not none.out, lib.describe(none))


def full_stdout(path):
    """/dev/full: a message and a code, never a silent success."""
    for name, args in (("decode", ["decode", "--format", "text", path]), ("help", ["--help"]),
                       ("insn", ["decode", "--insn", path]), ("doctor", ["doctor"]),
                       ("record", ["-q", "-o", lib.new_dir(), "--", lib.program("fixed")])):
        with open("/dev/full", "w") as full:
            run = subprocess.run([lib.BIN] + args, stdout=full, stderr=subprocess.PIPE, text=True)
        lib.check("full_stdout_" + name, run.returncode in (1, 6) and "No space left" in run.stderr,
                  "%d %s" % (run.returncode, run.stderr))


def main():
    run = lib.ptbpf("-q", "-o", lib.new_dir(), "--", lib.program("fixed"))
    if not lib.check("a_snapshot_to_begin_with", len(run.snapshots) == 1, lib.describe(run)):
        lib.finish()
    for group in (outputs, overwriting, inputs, instructions, full_stdout):
        with lib.case(group.__name__):
            group(run.snapshots[0])
    with lib.case("missing_binary"):
        missing_binary()
    lib.finish()


if __name__ == "__main__":
    main()
