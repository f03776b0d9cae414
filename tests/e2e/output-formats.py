#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""One large random timeline through every format and back through readers of our own: the same
slices must come out, by thread, depth, name, begin and duration."""
import collections
import json
import os
import re
import subprocess
import sys

import formats

TOOL = os.path.join(os.environ["O"], "tests/tools/golden_output")
TMP = os.environ.get("TMPDIR", "/tmp")
SEED = "7"
failed = False


def write(name):
    path = os.path.join(TMP, "trace." + name)
    with open(path, "wb") as out:
        subprocess.run([TOOL, SEED, name], stdout=out, check=True)
    return path


def read_truth():
    slices = []
    with open(write("truth")) as lines:
        for line in lines:
            pid, tid, depth, begin, dur, *name = line.split(" ")
            slices.append((int(pid), int(tid), int(depth), bytes.fromhex(name[0].strip()),
                           int(begin), int(dur)))
    return slices


def read_json(path):
    tracks = formats.Tracks()
    with open(path, encoding="utf-8") as text:
        trace = json.load(text)
    start = trace["start_ns"]
    for thread in trace["threads"]:
        for slice_ in thread["slices"]:
            tracks.slices.append((thread["pid"], thread["tid"], slice_["depth"],
                                  slice_["name"], start + slice_["begin_ns"],
                                  slice_["end_ns"] - slice_["begin_ns"]))
        tracks.gaps += len(thread["gaps"])
        tracks.instants += thread["instants"]
    assert tracks.instants[0]["detail"] == {"trigger": "sym:f,arg0=5", "hit": "1",
                                            "note": "two words"}
    return tracks


def read_text(path):
    """Times are rounded for people; the order, depth and names are not."""
    slices, tid, gaps = collections.defaultdict(list), None, 0
    line_form = re.compile(r"^[ ~] *\S+ us [ >] *\S+ \S+ +(?:\S+ \S+)?  ((?:  )*)(\S.*|)$")
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            head = re.match(r"^(?:>>> )?thread (\d+) ", line)
            if head:
                tid = int(head.group(1))
            elif "--- gap: " in line:
                gaps += 1
            elif " us" in line[:22] and "***" not in line:
                tail = line[1 + 17 + 2 + 10 + 1 + 11 + 2:].rstrip("\n")
                tail = re.split(r"  \[(?:open|begin not|end not|unwound|suspended|resumed|signal|gap)",
                                tail)[0]
                stripped = tail.lstrip(" ")
                slices[tid].append(((len(tail) - len(stripped)) // 2, stripped))
    return slices, gaps


def check(name, fn):
    global failed
    try:
        fn()
        print(f"PASS e2e/output-formats/{name}")
    except (AssertionError, KeyError, ValueError, subprocess.CalledProcessError) as error:
        failed = True
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        print(f"FAIL e2e/output-formats/{name}")


truth = read_truth()
expected = collections.Counter((*s[:3], formats.clean(s[3], 16384), *s[4:]) for s in truth)
counts = {}


def compare(name, read):
    tracks = read(write(name))
    got = collections.Counter(tracks.slices)
    missing, extra = expected - got, got - expected
    assert not missing and not extra, (f"{len(missing)} missing, {len(extra)} extra, as "
                                       f"{list(missing)[:2]} {list(extra)[:2]}")
    counts[name] = tracks.gaps
    return tracks


def check_json():
    raw = collections.Counter(
        (*s[:3], "".join("\ufffd" if c is None else c for c in chars(s[3])), *s[4:]) for s in truth)
    tracks = read_json(write("json"))
    assert raw == collections.Counter(tracks.slices)
    counts["json"] = tracks.gaps


def chars(raw):
    at = 0
    while at < len(raw):
        for size in (1, 2, 3, 4):
            try:
                char = raw[at:at + size].decode("utf-8")
                break
            except UnicodeDecodeError:
                char = None
        yield char
        at += 1 if char is None else size


def check_text():
    slices, counts["text"] = read_text(write("text"))
    by_tid = collections.defaultdict(list)
    for _, tid, depth, name, _, _ in truth:
        # A name that begins or ends with blanks cannot be told from the indentation.
        by_tid[tid].append((depth, formats.clean(name)))
    for tid, wanted in by_tid.items():
        assert len(slices[tid]) == len(wanted), f"thread {tid}"
        for (got_depth, got), (depth, name) in zip(slices[tid], wanted):
            cut = got.endswith("...") and name.startswith(got[:-3])
            assert got == name.strip() or cut, (got, name)
            assert not name.strip() or name != name.strip() or got_depth == depth, (got, name)


assert len({s[1] for s in truth}) > 255, "more threads than FXT has references for"
assert len({s[3] for s in truth}) > 0x7fff, "more names than FXT has indices for"


def check_perfetto():
    tracks = compare("perfetto", formats.read_perfetto)
    notes = tracks.notes
    assert notes["begin"] and notes["end"] and notes["spread"] and notes["error"], notes
    (_, name, _, texts), = tracks.instants
    assert name == "fire" and texts == {b"trigger": b"sym:f,arg0=5", b"hit": b"1",
                                        b"note": b"two words"}, texts


def check_fxt():
    tracks = compare("fxt", formats.read_fxt)
    assert set(tracks.edges) == {"inferred", "unwound", "switched"}, tracks.edges
    assert len(tracks.instants) == 1 and tracks.instants[0][1].startswith("fire ")


check("perfetto", check_perfetto)
check("fxt", check_fxt)
check("json", check_json)
check("text", check_text)


def same_gaps():
    assert len(set(counts.values())) == 1 and counts["json"] > 100, counts


def full_disk():
    for name in ("perfetto", "fxt", "json", "text"):
        with open("/dev/full", "wb") as out:
            run = subprocess.run([TOOL, SEED, name], stdout=out, stderr=subprocess.PIPE, text=True)
        assert run.returncode == 1 and "No space left on device" in run.stderr, (name, run)


check("gaps", same_gaps)
check("full_disk", full_disk)
sys.exit(failed)
