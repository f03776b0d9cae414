#!/usr/bin/python3
"""The target outlives its tracer: the session's process is killed with -9 at random moments, and
the target must run on, untraced, unpinned, with no debug register left, at full speed. How often it
also outlives a kill -9 of the stepper itself is measured and printed."""

import ctypes
import os
import random
import signal
import struct
import subprocess
import sys
import time

REC = os.environ["O"] + "/tests/tools/softrec"
PROGRAMS = os.environ["PROGRAMS"]
TMP = os.environ["TMPDIR"]
ROUNDS = int(os.environ.get("ROUNDS", "200"))
DEBUGREG = 848  # offsetof(struct user, u_debugreg)
random.seed(int(os.environ.get("SEED", "1")))
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
failed = False


def result(name, ok, detail=""):
    global failed
    failed |= not ok
    print(("PASS" if ok else "FAIL") + " e2e/soft-survival/" + name, detail, flush=True)


class Busy:
    def __init__(self, seconds, command=None):
        self.file = f"{TMP}/busy-{random.random()}"
        self.argv = [PROGRAMS + "/soft_busy", self.file, str(seconds)]
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL)
        self.pid = self.process.pid
        while self.counters()[0] == 0:
            time.sleep(0.01)
        return self

    def counters(self):
        try:
            with open(self.file, "rb") as f:
                return struct.unpack("<5Q", f.read(40).ljust(40, b"\0"))
        except FileNotFoundError:
            return (0,) * 5

    def rate(self, seconds):
        before, begin = self.counters()[0], time.monotonic()
        time.sleep(seconds)
        return (self.counters()[0] - before) / (time.monotonic() - begin)


def tasks(pid):
    try:
        return [int(t) for t in os.listdir(f"/proc/{pid}/task")]
    except FileNotFoundError:
        return []


def status(pid, tid):
    try:
        with open(f"/proc/{pid}/task/{tid}/status") as f:
            return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    except (FileNotFoundError, ProcessLookupError):
        return {}


def traced(pid):
    return [t for t in tasks(pid) if status(pid, t).get("TracerPid", "0") != "0"]


def in_user_code(pid, tid):
    try:
        with open(f"/proc/{pid}/task/{tid}/syscall") as f:
            return f.read().startswith("running")
    except OSError:
        return False


def leftovers(pid, cpus):
    """What a tracer forgot: debug registers, pinning, stopped threads."""
    bad = []
    for tid in tasks(pid):
        info = status(pid, tid)
        if info and info.get("Cpus_allowed_list") != cpus:
            bad.append(f"{tid} runs on {info.get('Cpus_allowed_list')}, not {cpus}")
        if info and info["State"][0] in "tT":
            bad.append(f"{tid} is {info['State']}")
        # Looking interrupts system calls: only threads that are in none are looked at.
        if not in_user_code(pid, tid) or libc.ptrace(0x4206, tid, None, None):  # PTRACE_SEIZE
            continue
        libc.ptrace(0x4207, tid, None, None)  # PTRACE_INTERRUPT
        try:
            os.waitpid(tid, 0x40000000)
        except ChildProcessError:
            continue
        value = ctypes.c_long(0)
        libc.syscall(101, 3, tid, DEBUGREG + 7 * 8, ctypes.byref(value))  # the kernel's PEEKUSER
        dr7 = value.value
        libc.ptrace(17, tid, None, None)  # PTRACE_DETACH
        if dr7 & 0xFF:
            bad.append(f"{tid} has DR7 {dr7:#x}")
    return bad


def wait_untraced(pid, seconds=5):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not traced(pid):
            return True
        time.sleep(0.005)
    return False


def stepper_of(pid):
    for tid in tasks(pid):
        tracer = int(status(pid, tid).get("TracerPid", "0"))
        if tracer:
            return tracer
    return 0


def attach(pid, mode):
    directory = f"{TMP}/rec-{random.random()}"
    os.mkdir(directory)
    return subprocess.Popen(
        [REC, "--quiet", "--step", mode, "--ring", "64K", "--multi-thread", "-p", str(pid), directory],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def cpus_of_self():
    return status(os.getpid(), os.getpid())["Cpus_allowed_list"]


def front_killed():
    busy = Busy(10000).start()
    survived, why = 0, ""
    for i in range(ROUNDS):
        front = attach(busy.pid, "block" if i % 2 else "insn")
        time.sleep(random.uniform(0, 0.06))
        front.send_signal(random.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV]))
        front.wait()
        before = busy.counters()
        ok = wait_untraced(busy.pid) and busy.process.poll() is None
        if ok and i % 20 == 19:
            bad = leftovers(busy.pid, cpus_of_self())
            ok, why = not bad, why or "; ".join(bad)
        if ok:
            time.sleep(0.03)
            ok = all(b > a for a, b in zip(before[:4], busy.counters()[:4])) or busy.rate(0.2) > 0
        if not ok:
            why = why or f"round {i}: {busy.process.poll()}, traced {traced(busy.pid)}"
            if busy.process.poll() is not None:
                break
        survived += ok
    # Beside one that was never traced, on the same busy machine.
    fresh = Busy(10000).start()
    after, full = 0, 0
    for _ in range(5):
        begin = busy.counters()[0], fresh.counters()[0]
        time.sleep(0.3)
        after += busy.counters()[0] - begin[0]
        full += fresh.counters()[0] - begin[1]
    fresh.process.kill()
    wrong = busy.counters()[4]
    busy.process.kill()
    result("front-killed", survived == ROUNDS and wrong == 0, f"({survived} of {ROUNDS}) {why}")
    result("full-speed-after", after > full / 2, f"({after} rounds; one never traced: {full})")
    result("calls-not-cut-short", wrong == 0, f"({wrong})")


def launched_killed():
    survived, rounds, why = 0, ROUNDS // 5, ""
    for i in range(rounds):
        busy = Busy(100)
        directory = f"{TMP}/launch-{i}"
        os.mkdir(directory)
        front = subprocess.Popen([REC, "--quiet", "--multi-thread", "--ring", "64K", directory, "--"] + busy.argv,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        time.sleep(random.uniform(0, 0.15))
        front.kill()
        front.wait()
        end, pids = time.monotonic() + 5, []
        ok = False
        while time.monotonic() < end and not ok:
            pids = [int(p) for p in os.listdir("/proc") if p.isdigit() and cmdline(p)[1:2] == [busy.file]]
            # It may not have begun; what has begun must go on.
            ok = all(not traced(p) for p in pids)
            time.sleep(0.02)
        for pid in pids:
            before = busy.counters()[0]
            time.sleep(0.15)
            ok = ok and busy.counters()[0] > before
            os.kill(pid, signal.SIGKILL)
        survived += ok
        if not ok:
            why = why or f"round {i}: {[(p, status(p, p).get('State'), traced(p)) for p in pids]}"
    result("launched-front-killed", survived == rounds, f"({survived} of {rounds}) {why}")


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().decode(errors="replace").split("\0")
    except OSError:
        return []


def stepper_killed():
    rounds = ROUNDS // 10
    for mode in ("block", "insn"):
        survived = 0
        for _ in range(rounds):
            busy = Busy(100).start()
            front = attach(busy.pid, mode)
            end, stepper = time.monotonic() + 2, 0
            while not stepper and time.monotonic() < end:
                stepper = stepper_of(busy.pid)
            time.sleep(random.uniform(0.01, 0.06))
            if stepper:
                os.kill(stepper, signal.SIGKILL)
            front.wait()
            time.sleep(0.1)
            survived += busy.process.poll() is None and busy.rate(0.05) > 0
            busy.process.kill()
            busy.process.wait()
        print(f"stepper killed with -9 in {mode} mode: {survived} of {rounds} targets survived", flush=True)


def states(pid):
    return {status(pid, t).get("State", "?")[0] for t in tasks(pid)}


def stopped_target():
    """A target that job control has stopped stays stopped, and continues when told."""
    busy = Busy(1000).start()
    front = attach(busy.pid, "block")
    time.sleep(0.3)
    os.kill(busy.pid, signal.SIGSTOP)
    time.sleep(0.3)
    held = states(busy.pid) <= {"T", "t"}
    front.kill()
    front.wait()
    stays = wait_untraced(busy.pid) and states(busy.pid) == {"T"}
    os.kill(busy.pid, signal.SIGCONT)
    time.sleep(0.1)
    runs = "T" not in states(busy.pid) and busy.rate(0.1) > 0
    busy.process.kill()
    result("stopped-target", held and stays and runs, f"(held {held}, stays {stays}, runs {runs})")


def stepper_terminated():
    busy = Busy(1000).start()
    ok = True
    for mode in ("block", "insn"):
        front = attach(busy.pid, mode)
        time.sleep(0.3)
        stepper = stepper_of(busy.pid)
        ok = ok and stepper != 0
        if stepper:
            os.kill(stepper, signal.SIGTERM)
        ok = ok and wait_untraced(busy.pid) and busy.rate(0.1) > 0
        ok = ok and front.wait(10) != 0
    wrong = busy.counters()[4]
    busy.process.kill()
    result("stepper-terminated", ok and not wrong)


front_killed()
launched_killed()
stopped_target()
stepper_terminated()
stepper_killed()
sys.exit(failed)
