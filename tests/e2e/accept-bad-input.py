#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Bad input, bad rights, bad disks: one message that names the thing and the remedy, and the
documented exit code."""
import os
import re
import subprocess
import time

import lib

FIXED = lib.program("fixed")
ROOT_USER = os.geteuid() == 0


class Mount:
    """A small tmpfs, to be full or read-only."""

    def __init__(self, options):
        self.path = lib.new_dir("mount")
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", self.path], check=True)

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.path])


def expect(name, code, says, *args, warns=None, **options):
    """ptbpf ARGS ends with @code after exactly one error message that matches @says."""
    if not lib.wanted(name):
        return None
    out = lib.new_dir()
    if "uid" in options:
        os.chmod(out, 0o777)
    if "-o" not in args:
        args = ("-o", out) + args
    run = lib.ptbpf(*args, timeout=60, **options)
    messages = lib.one_message(run.err)
    good = run.code == code
    if code and code != 7:
        errors = [m for m in messages if re.search(says, m, re.I)]
        good = good and len(errors) == 1
    if warns:
        good = good and any(re.search(warns, l) for l in run.err.splitlines())
    lib.check(name, good, "wanted exit %s and one message like /%s/ %s\n%s" % (
        code, says, warns or "", lib.describe(run)))
    return run


def commands():
    text = os.path.join(lib.new_dir(), "text")
    with open(text, "w") as f:
        f.write("not a program\n")
    os.chmod(text, 0o755)
    plain = text + "-plain"
    with open(plain, "w") as f:
        f.write("x")
    expect("missing_command", 5, r"no-such-command", "--", "no-such-command")
    expect("missing_path", 5, r"/no/such/file", "--", "/no/such/file")
    expect("non_elf_command", 1, re.escape(text), "--", text)
    expect("not_executable", 4, re.escape(plain), "--", plain)
    os.mkfifo(text + "-fifo", 0o777)
    expect("a_fifo", 4, r"not a regular file", "--", text + "-fifo")
    with open(text + "-orphan", "w") as f:
        f.write("#!/no/such/interpreter\n")
    os.chmod(text + "-orphan", 0o755)
    expect("no_interpreter", 5, r"text-orphan: the interpreter", "--", text + "-orphan")
    expect("a_directory", 4, r"/tmp", "--", "/tmp")
    expect("no_command_at_all", 2, r"command|-p")
    expect("empty_after_dashes", 2, r"command|-p", "--")
    expect("command_and_pid", 2, r"-p", "-p", str(os.getpid()), "--", FIXED)
    script = os.path.join(lib.new_dir(), "script")
    with open(script, "w") as f:
        f.write("#!%s\nignored\n" % FIXED)
    os.chmod(script, 0o755)
    run = expect("script_runs_its_interpreter", 0, "", "--", script)
    lib.check("script_gives_a_snapshot", run and len(run.snapshots) == 1, run and lib.describe(run))


def symbols():
    run = expect("unknown_symbol", 5, r"colatz", "-t", "sym:colatz", "--", FIXED)
    lib.check("nearest_names_are_offered", run and "collatz" in run.err, run and run.err)
    expect("unknown_object", 5, r"nowhere", "-t", "sym:nowhere.so!f", "--", FIXED)
    expect("bad_address", 5, r"0x10", "-t", "addr:fixed+0x10", "--", FIXED)
    expect("bad_trigger_kind", 2, r"bogus", "-t", "bogus:x", "--", FIXED)
    expect("later_trigger_kind", 3, r"usdt", "-t", "usdt:libc:setjmp", "--", FIXED)
    expect("bad_condition", 2, r"arg9", "-t", "sym:collatz,arg9==1", "--", FIXED)
    expect("too_wide_a_glob", 2, r"narrow", "-t", "sym:*", "--", lib.program("calls"))
    expect("symbol_never_reached", 7, "", "-t", "sym:abort", "--", FIXED)


def pids():
    ended = subprocess.Popen(["true"])
    ended.wait()
    expect("dead_pid", 5, str(ended.pid), "-p", str(ended.pid))
    expect("pid_0", 2, r"\b0\b", "-p", "0")
    expect("pid_text", 2, r"abc", "-p", "abc")
    expect("pid_negative", 2, r"-5", "-p", "-5")
    expect("own_pid_list_with_a_dead_one", 5, str(ended.pid), "-p",
           "%d,%d" % (os.getpid(), ended.pid))
    if not ROOT_USER:
        expect("other_users_pid", 4, r"\b1\b", "-p", "1")
        return
    with lib.Victim(1) as victim:
        expect("other_users_pid", 4, str(victim.pid), "-p", str(victim.pid), uid=lib.NOBODY,
               cwd="/")
        lib.check("other_users_pid/untouched", victim.runs() and not lib.harm(victim.pid) and
                  victim.end() == 42)
    with lib.Victim(1) as victim:
        tracer = subprocess.Popen(["gdb", "-q", "-batch", "-ex", "shell sleep 30", "-p",
                                   str(victim.pid)], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                                  start_new_session=True)
        lib.wait_until(lambda: lib.status_field(victim.pid, victim.pid, "TracerPid") != "0", 20)
        expect("another_tracer", 4, r"trace", "-p", str(victim.pid))
        os.killpg(tracer.pid, 9)
        tracer.wait()


def rights():
    if not ROOT_USER:
        return
    expect("setuid_needs_no_root", 0, "", "--", FIXED, uid=lib.NOBODY, cwd="/")
    expect("user_needs_root", 4, r"--user|root", "--user", "root", "--", FIXED, uid=lib.NOBODY,
           cwd="/")
    expect("unknown_user", 5, r"no-such-user", "--user", "no-such-user", "--", FIXED)
    expect("unprivileged_output", 4, r"/root", "-o", "/root/ptbpf-test", "--", FIXED,
           uid=lib.NOBODY, cwd="/")


def sizes():
    for size in ("0", "-1", "abc", "", "4Q", "1e999"):
        expect("buffer_%s" % (size or "empty"), 2, r"buffer|snapshot-size", "--buffer", size, "--",
               FIXED)
    run = expect("buffer_9K", 0, "", "--buffer", "9K", "--", FIXED, warns=r"warning: .*9K.*16K")
    lib.check("buffer_9K_runs", run and len(run.snapshots) == 1, run and lib.describe(run))
    if run and run.snapshots:
        budget = lib.Snapshot(run.snapshots[0]).meta["budget"]
        lib.check("buffer_9K_recorded", budget["requested_bytes"] == 9 << 10 and
                  budget["bytes"] == 16 << 10, budget)
    run = expect("buffer_33K", 0, "", "--buffer", "33K", "--", FIXED, warns=r"warning: .*33K.*64K")
    begun = os.path.join(lib.new_dir(), "begun")
    run = expect("buffer_300T", 6, r"256T|memory|GiB|[0-9]", "--buffer", "300T", "--", "/usr/bin/touch",
                 begun, warns=r"warning: .*300T.*256T")
    lib.check("buffer_300T_starts_nothing", run and not os.path.exists(begun) and
              not run.snapshots)
    run = expect("alias", 0, "", "-snapshot-size", "64K", "--", FIXED)
    if run and run.snapshots:
        budget = lib.Snapshot(run.snapshots[0]).meta["budget"]
        lib.check("alias_is_the_budget", budget["bytes"] == 64 << 10, budget)


def disks():
    if not ROOT_USER:
        return
    with Mount("size=1m,ro") as path:
        expect("read_only_output", 4, re.escape(path), "-o", path, "--", FIXED)
    with Mount("size=32k") as path:
        run = expect("full_disk", 6, r"space|full", "-o", path, "--", lib.program("calls"))
        lib.check("full_disk_leaves_nothing", run and not os.listdir(path), os.listdir(path))
    taken = os.path.join(lib.new_dir(), "file")
    with open(taken, "w") as f:
        f.write("x")
    expect("output_is_a_file", 1, re.escape(taken), "-o", taken, "--", FIXED)
    with lib.Victim(2) as victim, Mount("size=16k") as path:
        out = subprocess.Popen([lib.BIN, "-o", path, "-t", "rare", "-p", str(victim.pid)],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        lib.wait_until(lambda: lib.status_field(victim.pid, victim.pid, "TracerPid") != "0", 20)
        time.sleep(0.5)
        victim.call_rare()
        try:
            _, err = out.communicate(timeout=40)
        except subprocess.TimeoutExpired:
            out.kill()
            _, err = out.communicate()
        lib.check("full_disk_attached", out.returncode == 6, "%s %s" % (out.returncode, err.decode()))
        wrong = lib.harm(victim.pid)
        lib.check("full_disk_attached/target_unharmed", not wrong and victim.end() == 42, wrong)


def in_shell(name, code, says, setting):
    """ptbpf started by a shell with this redirection or limit: one message, no signal."""
    if not lib.wanted(name):
        return
    script = "exec" if setting[0] in "<>" else setting + "; exec"
    line = '%s "$@" %s' % (script, setting if script == "exec" else "")
    run = subprocess.run(["bash", "-c", line, "bash", lib.BIN, "-q", "-o", lib.new_dir(),
                          "-t", "collatz", "--", FIXED], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    said = [l for l in run.stderr.decode().splitlines() if l.startswith("ptbpf: ")]
    lib.check(name, run.returncode == code and len(said) == 1 and re.search(says, said[0]),
              "%d %s" % (run.returncode, said))


def shells():
    in_shell("stdout_closed", 1, "stdout: Bad file descriptor", ">&-")
    in_shell("few_open_files", 6, "[Oo]pen files", "ulimit -n 8")
    in_shell("small_files", 6, "File too large", "ulimit -f 4")


def usage():
    expect("unknown_option", 2, r"triger", "--triger", "x", "--", FIXED)
    expect("unknown_command", 2, r"recrod", "recrod", "--", FIXED)
    expect("unknown_format", 2, r"pdf", "--format", "pdf", "--", FIXED)
    expect("unknown_balance", 2, r"fair", "--balance", "fair", "--", FIXED)
    expect("missing_value", 2, r"buffer", "--buffer")
    expect("hardware_source", 3, r"hw|intel_pt|PT", "--source", "hw", "--", FIXED)
    expect("decode_missing", 5, r"/no/such", "decode", "/no/such")
    garbage = os.path.join(lib.new_dir(), "perf.data")
    with open(garbage, "wb") as f:
        f.write(os.urandom(5000))
    expect("decode_garbage", 1, re.escape(garbage), "decode", garbage)


def main():
    for group in (commands, symbols, pids, rights, sizes, disks, shells, usage):
        with lib.case(group.__name__):
            group()
    lib.finish()


if __name__ == "__main__":
    main()
