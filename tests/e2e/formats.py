# SPDX-License-Identifier: GPL-2.0-only
"""Readers of the trace formats, independent of the writers: bytes in, slices out. They complain
(AssertionError) about whatever is not as the formats want it."""
import collections
import os
import re
import struct
import subprocess

PROTO = os.path.join(os.path.dirname(__file__), "../tools/perfetto_subset.proto")


def clean(raw, limit=None):
    """What a viewer is told for a name: valid UTF-8 without control characters, cut to limit."""
    text, at = "", 0
    while at < len(raw):
        for size in (1, 2, 3, 4):
            try:
                char = raw[at:at + size].decode("utf-8")
                break
            except UnicodeDecodeError:
                char = None
        text += "\ufffd" if char is None else " " if ord(char) < 32 or ord(char) == 127 else char
        at += 1 if char is None else size
    data = text.encode()
    assert limit is None or len(data) < limit, "no name of the test is cut"
    return text


class Tracks:
    """Begins and ends per track -> slices; complains about what does not nest."""

    def __init__(self):
        self.open = collections.defaultdict(list)
        self.last = collections.defaultdict(int)
        self.slices, self.gaps, self.instants = [], 0, []

    def at(self, track, time):
        assert time >= self.last[track], f"time goes back on track {track}"
        self.last[track] = time

    def begin(self, track, name, time, is_gap):
        self.at(track, time)
        self.open[track].append((name, time, is_gap))

    def end(self, track, time, name=None):
        self.at(track, time)
        begun, begin, is_gap = self.open[track].pop()
        assert name is None or name == begun, f"end of {name} closes {begun}"
        depth = sum(1 for slice_ in self.open[track] if not slice_[2])
        if is_gap:
            self.gaps += 1
        else:
            self.slices.append((*track, depth, begun, begin, time - begin))

    def finish(self):
        assert not any(self.open.values()), "slices left open"


def unescape(text):
    return text[1:-1].encode("latin-1").decode("unicode_escape").encode("latin-1")


def parse_text_proto(lines):
    """protoc --decode's output as nested lists of (key, value)."""
    stack = [[]]
    for line in lines:
        line = line.strip()
        if line.endswith("{"):
            message = []
            stack[-1].append((line[:-1].strip(), message))
            stack.append(message)
            if len(stack) == 2:
                assert line == "packet {"
        elif line == "}":
            done = stack.pop()
            if len(stack) == 1:
                yield done
        else:
            key, value = line.split(": ", 1)
            stack[-1].append((key, unescape(value) if value.startswith('"') else value))


def read_perfetto(path):
    decoded = path + ".txt"
    with open(path, "rb") as trace, open(decoded, "w") as out:
        subprocess.run(["protoc", "--decode=ptbpf.test.Trace", "-I" + os.path.dirname(PROTO),
                        os.path.basename(PROTO)], stdin=trace, stdout=out, check=True)
    tracks, uuids, state, threads = Tracks(), {}, {}, {}
    notes = collections.Counter()
    begins = ends = 0
    with open(decoded, encoding="latin-1") as lines:
        for packet in parse_text_proto(lines):
            for key, _ in packet:
                assert not key[0].isdigit(), f"unknown field {key}"
            fields = dict(packet)
            sequence = fields["trusted_packet_sequence_id"]
            if "track_descriptor" in fields:
                track = dict(fields["track_descriptor"])
                if "thread" in track:
                    thread = dict(track["thread"])
                    assert int(track["parent_uuid"]) in uuids
                    uuids[int(track["uuid"])] = (int(thread["pid"]), int(thread["tid"]))
                    threads[int(thread["tid"])] = thread["thread_name"].decode()
                else:
                    uuids[int(track["uuid"])] = dict(track["process"])["process_name"].decode()
            if int(fields.get("sequence_flags", 0)) & 1:
                clocks = [dict(c) for k, c in fields["clock_snapshot"]]
                defaults = dict(fields["trace_packet_defaults"])
                assert clocks[1]["is_incremental"] == "true" and clocks[1]["clock_id"] == "64"
                assert defaults["timestamp_clock_id"] == "64"
                uuid = int(dict(defaults["track_event_defaults"])["track_uuid"])
                assert sequence not in state
                state[sequence] = {"time": int(clocks[0]["timestamp"]), "track": uuids[uuid],
                                   "event_names": {}, "event_categories": {},
                                   "debug_annotation_names": {}}
            for kind, entry in fields.get("interned_data", []):
                entry = dict(entry)
                assert entry["iid"] not in state[sequence][kind], "interned twice"
                state[sequence][kind][entry["iid"]] = entry["name"].decode()
            if "track_event" not in fields:
                continue
            here = state[sequence]
            here["time"] += int(fields["timestamp"])
            event = dict(fields["track_event"])
            for key, value in fields["track_event"]:
                if key == "debug_annotations" and "name_iid" in dict(value):
                    notes[here["debug_annotation_names"][dict(value)["name_iid"]]] += 1
            if event["type"] == "TYPE_SLICE_BEGIN":
                begins += 1
                name = event["name"].decode() if "name" in event else \
                    here["event_names"][event["name_iid"]]
                is_gap = event.get("categories") == b"gap"
                assert is_gap or event["category_iids"] in here["event_categories"]
                tracks.begin(here["track"], name, here["time"], is_gap)
            elif event["type"] == "TYPE_SLICE_END":
                ends += 1
                tracks.end(here["track"], here["time"])
            else:
                texts = {dict(v)["name"]: dict(v)["string_value"] for k, v in
                         fields["track_event"] if k == "debug_annotations"}
                tracks.instants.append((here["track"], event["name"].decode(), here["time"], texts))
    assert begins == ends
    tracks.finish()
    tracks.notes, tracks.threads = notes, threads
    return tracks


def read_fxt(path):
    with open(path, "rb") as trace:
        words = trace.read()
    assert len(words) % 8 == 0
    words = struct.unpack(f"<{len(words) // 8}Q", words)
    assert words[0] == 0x0016547846040010
    strings, threads, names = {0: ""}, {}, {}
    tracks, at, edges = Tracks(), 1, collections.Counter()
    while at < len(words):
        head = words[at]
        kind, size = head & 15, head >> 4 & 0xfff
        assert size, "record of size 0"
        if kind == 1:
            assert words[at + 1] == 10**9
        elif kind == 2:
            index, length = head >> 16 & 0xffff, head >> 32 & 0x7fff
            data = struct.pack(f"<{size - 1}Q", *words[at + 1:at + size])
            assert 0 < index < 0x8000 and length <= len(data) < length + 8
            strings[index] = data[:length].decode("utf-8")
        elif kind == 3:
            index = head >> 16 & 0xff
            assert index
            threads[index] = (words[at + 1], words[at + 2])
        elif kind == 7:
            names[head >> 16 & 0xff, words[at + 1]] = strings[head >> 24 & 0xffff]
        elif kind == 4:
            n_args, event = head >> 20 & 15, head >> 16 & 15
            track, name = threads[head >> 24 & 0xff], strings[head >> 48]
            category, time = strings[head >> 32 & 0xffff], words[at + 1]
            if n_args:
                arg = words[at + 2]
                assert arg & 15 == 6 and strings[arg >> 16 & 0xffff] == "edge"
                edges[strings[arg >> 32 & 0xffff]] += 1
            if event == 2:
                tracks.begin(track, name, time, category == "gap")
            elif event == 3:
                tracks.end(track, time, name)
            else:
                assert event == 0
                tracks.instants.append((track, name, time))
        else:
            raise AssertionError(f"record type {kind}")
        at += size
    tracks.finish()
    tracks.edges = edges
    for track in {slice_[:2] for slice_ in tracks.slices}:
        assert (1, track[0]) in names and (2, track[1]) in names
    return tracks
