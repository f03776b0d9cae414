# SPDX-License-Identifier: GPL-2.0-only
"""What the e2e tests share: running ptbpf, reading what it left, and looking at its targets.

A test is `import lib`, calls to check(), and lib.finish() at its end. Standard library only.
"""
import collections
import ctypes
import glob
import json
import mmap
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import traceback

ROOT = os.environ.get("ROOT") or os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
O = os.environ.get("O", "build")
O = O if O.startswith("/") else os.path.join(ROOT, O)
BIN = os.environ.get("BIN", os.path.join(O, "ptbpf"))
PROGRAMS = os.environ.get("PROGRAMS", os.path.join(O, "programs"))
TMPDIR = os.environ.get("TMPDIR") or "/tmp"
ID = "e2e/" + os.path.splitext(os.path.basename(sys.argv[0]))[0]

NOBODY = 65534
_failed = []
_counter = [0]


# --- results ---

def wanted(name):
    """False when the filter T names another case of this very file."""
    only = os.environ.get("T", "")
    return not only.startswith(ID + "/") or (ID + "/" + name).startswith(only)


def check(name, good, detail=""):
    """One result line; @detail is printed when it failed."""
    if good:
        print("PASS %s/%s" % (ID, name))
    else:
        _failed.append(name)
        print("FAIL %s/%s" % (ID, name))
        for line in str(detail).splitlines()[:40]:
            print("    " + line)
    sys.stdout.flush()
    return bool(good)


def skip(name, reason):
    print("SKIP %s/%s: %s" % (ID, name, reason))
    sys.stdout.flush()


def skip_all(reason):
    print(reason)
    sys.exit(77)


class case:
    """`with case("name"):` turns an exception inside into the failure of that case."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None or not issubclass(kind, Exception):
            return False
        check(self.name, False, "".join(traceback.format_exception(kind, value, trace)))
        return True


def finish():
    sys.exit(1 if _failed else 0)


# --- running ---

def program(name):
    return os.path.join(PROGRAMS, name)


def new_dir(name="out", mode=0o755):
    _counter[0] += 1
    path = os.path.join(TMPDIR, "%s%d" % (name, _counter[0]))
    os.mkdir(path)
    os.chmod(path, mode)
    return path


def as_user(uid, groups=True):
    """A preexec function that becomes @uid for good."""
    def become():
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    return become


Run = collections.namedtuple("Run", "code out err seconds snapshots")


def describe(run):
    return "exit %s after %.1f s\n--- stdout\n%s\n--- stderr\n%s" % (
        run.code, run.seconds, run.out[-1500:], run.err[-3000:])


def ptbpf(*args, timeout=120, env=None, uid=None, cwd=None, binary=None, stdin=subprocess.DEVNULL):
    """Runs ptbpf to its end. A time-out kills it and gives the code "timeout"."""
    merged = dict(os.environ)
    merged.pop("SUDO_UID", None)
    merged.pop("SUDO_GID", None)
    merged.update(env or {})
    begin = time.monotonic()
    process = subprocess.Popen([binary or BIN] + [str(a) for a in args], stdin=stdin,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=merged, cwd=cwd,
                               preexec_fn=as_user(uid) if uid is not None else None,
                               start_new_session=True)
    try:
        out, err = process.communicate(timeout=timeout)
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        code = "timeout"
    out, err = out.decode(errors="replace"), err.decode(errors="replace")
    return Run(code, out, err, time.monotonic() - begin, snapshots_in(out, cwd))


def snapshots_in(text, cwd=None):
    """The snapshot directories that stdout names, one a line."""
    found = []
    for line in text.splitlines():
        path = os.path.join(cwd or os.getcwd(), line.strip())
        if line.strip() and os.path.isfile(os.path.join(path, "snapshot.json")):
            found.append(path)
    return found


def wait_until(condition, seconds=20, every=0.02):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(every)
    return condition()


def one_message(text):
    """Lines of stderr that are messages of ptbpf, warnings left out."""
    return [l for l in text.splitlines() if l.startswith("ptbpf: ") and
            not l.startswith("ptbpf: warning: ")]


def may_bpf():
    """Whether BPF programs may be loaded here."""
    return os.geteuid() == 0 and subprocess.run(
        ["bpftool", "prog", "show"], stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL).returncode == 0


# --- what a snapshot holds ---

Slice = collections.namedtuple("Slice", "name object depth begin end begin_edge end_edge")


def plain_name(name):
    """A function's name without parameters, clones and the hash of Rust."""
    name = re.sub(r"::h[0-9a-f]{16}$", "", name)
    name = re.sub(r"@plt$|\.(part|cold|isra|constprop|lto_priv)\.?\d*.*$| \[clone .*$", "", name)
    if not name.startswith("<"):
        name = name.split("(")[0]
    return name.split(" ")[-1] if "<" not in name else name


class Snapshot:
    """A snapshot directory and the trace.json in it."""

    def __init__(self, path, timeline=None):
        self.path = path
        self.meta = load_json(os.path.join(path, "snapshot.json"))
        self.timeline_path = timeline or os.path.join(path, "trace.json")
        self._timeline = None

    def timeline(self):
        """trace.json with its slices as Slice; all times absolute."""
        if not self._timeline:
            self._timeline = load_timeline(self.timeline_path)
        return self._timeline

    def threads(self):
        """{tid: thread object of trace.json}"""
        return {t["tid"]: t for t in self.timeline()["threads"]}

    def slices(self, tid):
        return self.threads()[tid]["slices"]

    def fired_tid(self):
        return self.meta["trigger"]["tid"]


def load_timeline(path):
    """docs/formats.md describes the file."""
    timeline = load_json(path)
    start = timeline["start_ns"]
    for thread in timeline["threads"]:
        thread["slices"] = [
            Slice(plain_name(s["name"]), s["object"], s["depth"], start + s["begin_ns"],
                  start + s["end_ns"], s.get("begin_edge", "seen"), s.get("end_edge", "seen"))
            for s in thread["slices"]]
        for gap in thread["gaps"]:
            gap["begin_ns"] += start
            gap["end_ns"] += start
    return timeline


def aux_chunks(path):
    """[(tid, bytes)] of the AUXTRACE records of a perf.data, in order of the file."""
    with open(path, "rb") as f:
        data = f.read()
    start, size = struct.unpack_from("<QQ", data, 40)  # the data section of struct perf_file_header
    at, found = start, []
    while at + 8 <= start + size:
        kind, _, length = struct.unpack_from("<IHH", data, at)
        if length < 8:
            raise ValueError("%s: record of %d bytes at %d" % (path, length, at))
        if kind == 71:
            trace_size, = struct.unpack_from("<Q", data, at + 8)
            tid, = struct.unpack_from("<I", data, at + 36)
            found.append((tid, data[at + length:at + length + trace_size]))
            at += trace_size
        at += length
    return found


def load_json(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def record(*args, out=None, **options):
    """Runs ptbpf with --format json into a directory of its own."""
    out = out or new_dir()
    return ptbpf("-o", out, "--format", "json", *args, **options)


def last_chain(slices):
    """The frames open at the end of a thread's trace, outermost first."""
    chain = []
    for s in slices:
        del chain[s.depth:]
        chain.append(s)
    return chain


# --- what the programs say themselves: tests/programs/truth.h ---

Truth = collections.namedtuple("Truth", "pid functions records lost")
ENTER, LEAVE, RESUME = 1, 2, 3


def read_truth(path):
    with open(path, "rb") as f:
        data = f.read()
    magic, pid, n_functions, n_records, lost = struct.unpack_from("<8sIIII", data)
    assert magic == b"pttruth1", path
    at = 24
    names = []
    for _ in range(n_functions):
        names.append(data[at:at + 64].split(b"\0")[0].decode())
        at += 64
    records = []
    for i in range(n_records):
        tid, function, op = struct.unpack_from("<IHH", data, at + 8 * i)
        records.append((tid, names[function], op))
    return Truth(pid, names, records, lost)


def truth_counts(truth):
    return collections.Counter(name for _, name, op in truth.records if op == ENTER)


def truth_calls(truth):
    """{tid: [(name, depth)] in order of entry}, frames left by longjmp or unwinding taken off."""
    calls, stacks = collections.defaultdict(list), collections.defaultdict(list)
    for tid, name, op in truth.records:
        stack = stacks[tid]
        if op == ENTER:
            calls[tid].append((name, len(stack)))
            stack.append(name)
        elif name not in stack:
            raise ValueError("thread %d leaves %s, which it has not entered" % (tid, name))
        else:
            while stack[-1] != name:
                stack.pop()
            if op == LEAVE:
                stack.pop()
    return dict(calls)


def sliced_calls(slices, functions):
    """[(name, depth)] of the slices of these functions, depth counted among them alone."""
    calls, stack = [], []
    for s in slices:
        while stack and stack[-1].depth >= s.depth:
            stack.pop()
        if s.name in functions:
            calls.append((s.name, sum(f.name in functions for f in stack)))
        stack.append(s)
    return calls


def first_difference(a, b):
    for i, (x, y) in enumerate(zip(a, b)):
        if x != y:
            return "at %d: %s, not %s\nbefore: %s\nthen: %s\n  or: %s" % (
                i, x, y, a[max(0, i - 6):i], a[i:i + 6], b[i:i + 6])
    return "lengths %d and %d: %s" % (len(a), len(b), (a[len(b):] or b[len(a):])[:6])


# --- targets and what is left in them ---

class Victim:
    """build/programs/victim: a program to attach to (see its head)."""

    def __init__(self, threads=3, uid=None):
        self.file = os.path.join(new_dir("victim", 0o777), "words")
        with open(self.file, "wb") as f:
            f.write(bytes(4096))
        os.chmod(self.file, 0o666)
        self.handle = open(self.file, "r+b")
        self.words = mmap.mmap(self.handle.fileno(), 4096)
        self.process = subprocess.Popen([program("victim"), self.file, str(threads)],
                                        stdin=subprocess.DEVNULL, start_new_session=True,
                                        preexec_fn=as_user(uid) if uid is not None else None)
        self.pid = self.process.pid
        self.threads = threads
        if not wait_until(lambda: self.word(0) == 1):
            raise RuntimeError("victim did not start")

    def word(self, i):
        return struct.unpack_from("<Q", self.words, 8 * i)[0]

    def set(self, i, value):
        struct.pack_into("<Q", self.words, 8 * i, value)

    def call_rare(self):
        self.set(2, self.word(2) + 1)

    def ticks(self):
        return [self.word(8 + 8 * i) for i in range(self.threads)]

    def speed(self, seconds=0.5):
        """Ticks of thread 0 per second of its CPU time."""
        ticks, cpu = self.word(8), thread_cpu(self.pid, self.pid)
        end = time.monotonic() + 20
        time.sleep(seconds)
        while thread_cpu(self.pid, self.pid) - cpu < 0.2 and time.monotonic() < end:
            time.sleep(0.05)
        spent = thread_cpu(self.pid, self.pid) - cpu
        return (self.word(8) - ticks) / spent if spent else 0

    def runs(self, seconds=10):
        """All threads make progress."""
        before = self.ticks()
        return bool(wait_until(lambda: all(a > b for a, b in zip(self.ticks(), before)), seconds))

    def end(self):
        """Asks it to end; its exit status (42 when all is well)."""
        self.set(1, 1)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return "did not end"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def processes_with(word):
    """Processes whose command line has @word as an argument, zombies left out."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open("/proc/%d/cmdline" % int(entry), "rb") as f:
                arguments = f.read().split(b"\0")
        except (ValueError, OSError):
            continue
        if word.encode() in arguments:
            found.append(int(entry))
    return found


def running(path, word):
    """The process that runs the program @path with @word as an argument, or None."""
    for pid in processes_with(word):
        try:
            if os.readlink("/proc/%d/exe" % pid) == path:
                return pid
        except OSError:
            continue
    return None


def thread_cpu(pid, tid):
    """Seconds of CPU time."""
    with open("/proc/%d/task/%d/stat" % (pid, tid)) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def status_field(pid, tid, field):
    try:
        with open("/proc/%d/task/%d/status" % (pid, tid)) as f:
            for line in f:
                if line.startswith(field + ":"):
                    return line.split(":", 1)[1].strip()
    except (FileNotFoundError, ProcessLookupError):
        pass
    return None


def tids(pid):
    try:
        return sorted(int(t) for t in os.listdir("/proc/%d/task" % pid))
    except FileNotFoundError:
        return []


def changed_text(pid):
    """[(path, offset)] where executable bytes of files in memory differ from the files: probes."""
    changed = []
    with open("/proc/%d/maps" % pid) as f:
        maps = f.read().splitlines()
    with open("/proc/%d/mem" % pid, "rb", buffering=0) as memory:
        for line in maps:
            fields = line.split(None, 5)
            if len(fields) < 6 or "x" not in fields[1] or not fields[5].startswith("/"):
                continue
            low, high = (int(x, 16) for x in fields[0].split("-"))
            offset = int(fields[2], 16)
            with open(fields[5], "rb") as f:
                f.seek(offset)
                on_disk = f.read(high - low)
            memory.seek(low)
            in_memory = memory.read(len(on_disk))
            if in_memory != on_disk:
                changed += [(fields[5], offset + i) for i in range(len(on_disk))
                            if in_memory[i] != on_disk[i]][:4]
    return changed


_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
PTRACE_PEEKUSER, PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 3, 17, 0x4206, 0x4207
DEBUGREG_OFFSET = 848  # offsetof(struct user, u_debugreg)


def debug_registers(tid):
    """DR0..DR3 and DR7 of a thread, read by a short ptrace of our own."""
    if _libc.ptrace(PTRACE_SEIZE, tid, None, None):
        raise OSError(ctypes.get_errno(), "ptrace seize of %d" % tid)
    try:
        _libc.ptrace(PTRACE_INTERRUPT, tid, None, None)
        os.waitpid(tid, 0x40000000)  # __WALL
        values = []
        for i in (0, 1, 2, 3, 7):
            ctypes.set_errno(0)
            value = _libc.ptrace(PTRACE_PEEKUSER, tid, DEBUGREG_OFFSET + 8 * i, None)
            if ctypes.get_errno():
                raise OSError(ctypes.get_errno(), "debug register %d of %d" % (i, tid))
            values.append(value)
        return values
    finally:
        _libc.ptrace(PTRACE_DETACH, tid, None, None)


def harm(pid, registers=True):
    """What is still wrong with a process that ptbpf has left: a list of texts, empty when unharmed.

    Waits a little for the tracer to be gone.
    """
    wrong = []
    def free():
        return all(status_field(pid, t, "TracerPid") in ("0", None) for t in tids(pid))
    if not wait_until(free, 10):
        wrong.append("still traced: " + ", ".join(
            "%d by %s" % (t, status_field(pid, t, "TracerPid")) for t in tids(pid)))
        return wrong
    for tid in tids(pid):
        state = status_field(pid, tid, "State") or "gone"
        if state[0] in "tT":
            wrong.append("thread %d is stopped (%s)" % (tid, state))
    # The keeper removes the probes of a dead recorder; a grace period of the kernel may take seconds.
    wait_until(lambda: not changed_text(pid), 30)
    text = changed_text(pid)
    if text:
        wrong.append("text differs from the file: %s" % text)
    if registers and not wrong:
        for tid in tids(pid):
            try:
                values = debug_registers(tid)
            except OSError as error:
                if status_field(pid, tid, "State"):
                    wrong.append(str(error))
                continue
            # a clone inherits the word that reads as DR7, but no breakpoint: its addresses are 0
            if values[4] & 0xff and any(values[:4]):
                wrong.append("thread %d has debug registers %s" % (tid, [hex(v) for v in values]))
    return wrong


def bpf_objects():
    """Ids of BPF programs and links, with their names."""
    found = {}
    for kind in ("prog", "link"):
        run = subprocess.run(["bpftool", "-j", kind, "show"], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL)
        try:
            listed = json.loads(run.stdout or b"[]")
        except ValueError:
            listed = []
        for item in listed if isinstance(listed, list) else []:
            found[(kind, item["id"])] = item.get("name", item.get("type"))
    return found


def is_ours(pid, known={}):
    """Was the process started by this test, orphans included?"""
    if pid not in known:
        with open("/proc/%s/environ" % pid, "rb") as f:
            known[pid] = b"TMPDIR=" + os.environ["TMPDIR"].encode() in f.read().split(b"\0")
    return known[pid]


def bpf_held():
    """Ids of BPF programs and links that processes of other tests have open."""
    held = set()
    for fd in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            if not os.readlink(fd).startswith("anon_inode:bpf") or is_ours(fd.split("/")[2]):
                continue
            with open(fd.replace("/fd/", "/fdinfo/")) as f:
                for line in f:
                    name, _, value = line.partition(":")
                    if name in ("prog_id", "link_id"):
                        held.add((name[:4], int(value)))
        except (OSError, ValueError):
            continue
    return held


def bpf_left(before, seconds=10):
    """Programs and links that are new since @before and not another test's."""
    def orphans():
        present = bpf_objects()
        held = bpf_held() if any(key not in before for key in present) else ()
        return {key: name for key, name in present.items()
                if key not in before and key not in held}
    # What other tests just let go is there for a moment, too; ours would stay.
    left, end = orphans(), time.monotonic() + seconds
    while left and time.monotonic() < end:
        time.sleep(0.3)
        present = orphans()
        left = {key: name for key, name in left.items() if key in present}
    return left
