#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Triggers with conditions decide the same in the kernel (bpf) and in the stepper (soft)."""
import os
import re
import subprocess

import lib

SERVES = lib.program("serves")


class Evaluator:
    """Runs the program `serves` under ptbpf, as root or as a user who may not load BPF."""

    def __init__(self, name, uid):
        self.name, self.uid = name, uid

    def run(self, *triggers, arguments=(), options=(), command=(SERVES,)):
        out = lib.new_dir(self.name, 0o777)
        options = ["--multi-thread", *options]
        for trigger in triggers:
            options += ["-t", trigger]
        run = lib.record(*options, "--", *command, *arguments, out=out, uid=self.uid, cwd="/")
        return run, [lib.Snapshot(path).meta for path in run.snapshots]

    def fires(self, case, trigger, expected, **options):
        """The one fire of @trigger has what @expected says of snapshot.json's trigger."""
        name = "%s/%s" % (self.name, case)
        if not lib.wanted(name):
            return
        with lib.case(name):
            run, metas = self.run(trigger, **options)
            if len(metas) != 1 or run.code != 0:
                lib.check(name, False, lib.describe(run))
                return
            got = metas[0]["trigger"]
            seen = {key: int(got["args"][key], 16) if isinstance(key, int) else got[key]
                    for key in expected}
            lib.check(name, seen == expected and metas[0]["source"]["evaluator"] == self.name,
                      "%s\n%s\n%s" % (expected, got, run.err))

    def never(self, case, trigger, hits):
        name = "%s/%s" % (self.name, case)
        if not lib.wanted(name):
            return
        with lib.case(name):
            run, metas = self.run(trigger)
            counts = metas[0]["counts"][0] if metas else {}
            lib.check(name, run.code == 7 and counts.get("hits") == hits and
                      counts.get("fires") == 0, "%s\n%s" % (counts, lib.describe(run)))


def address_of(function):
    for line in subprocess.check_output(["nm", SERVES], text=True).splitlines():
        if line.endswith(" T " + function):
            return int(line.split()[0], 16)
    raise LookupError(function)


def second_instruction(function):
    """Offset of it in the function."""
    text = subprocess.check_output(["objdump", "-d", "--disassemble=" + function, SERVES], text=True)
    addresses = [int(m, 16) for m in re.findall(r"^ +([0-9a-f]+):\t", text, re.M)]
    return addresses[1] - addresses[0]


def conditions(ev):
    ev.fires("argument", "sym:serve,arg0==7", {0: 7, "hit": 7, "symbol": "serve"})
    ev.fires("negative_int", "sym:serve,arg1<-8", {0: 9, 1: 2**32 - 9, "hit": 9})
    ev.fires("two_conditions", "sym:serve,arg0>=3,arg1!=-3", {0: 4})
    ev.fires("after_and_every", "sym:serve,after=4,every=3", {0: 7, "hit": 7})
    ev.fires("comm", "sym:serve,comm=picky", {0: 100, "comm": "picky", "hit": 13})
    ev.fires("glob", "sym:assi*,arg0==2", {0: 2, "symbol": "assist"})
    ev.fires("object", "sym:serves!assist", {0: 1})
    ev.fires("address", "addr:serves+0x%x,arg0=3" % address_of("assist"), {0: 3})
    offset = second_instruction("assist")
    ev.fires("offset", "sym:assist+0x%x" % offset, {"symbol": "assist+0x%x" % offset})
    ev.fires("after_exec", "sym:serve,arg0==2", {0: 2, "comm": "serves"},
             command=["sh", "-c", "exec " + SERVES])
    ev.fires("main_thread_gone", "sym:serve,arg0==12", {0: 12}, arguments=["orphan"])
    ev.never("sample", "sym:serve,sample=0.000001", 13)
    ev.never("no_argument_matches", "sym:serve,arg0==1000", 13)
    ev.never("other_tid", "sym:serve,tid=1", 13)


def several(ev):
    """Two triggers and three snapshots; then a rate that lets one through."""
    name = ev.name + "/two_triggers"
    if lib.wanted(name):
        with lib.case(name):
            run, metas = ev.run("sym:serve,arg0==2", "sym:assist,arg0>10",
                                options=["--max-snapshots", "3"])
            specs = [m["trigger"]["spec"] for m in metas]
            lib.check(name, specs == ["sym:serve,arg0==2", "sym:assist,arg0>10",
                                      "sym:assist,arg0>10"] and run.code == 0,
                      "%s\n%s" % (specs, lib.describe(run)))
    name = ev.name + "/rate"
    if lib.wanted(name):
        with lib.case(name):
            run, metas = ev.run("sym:serve,rate=2/1h", options=["--multi-snapshot"])
            fired = [m for m in metas if m["trigger"]["kind"] == "sym"]
            lib.check(name, len(fired) == 2 and run.code == 0, lib.describe(run))


def main():
    evaluators = []
    if lib.may_bpf():
        evaluators.append(Evaluator("bpf", None))
    else:
        lib.skip("bpf", "BPF programs may not be loaded here")
    evaluators.append(Evaluator("soft", lib.NOBODY if os.geteuid() == 0 else None))
    for evaluator in evaluators:
        conditions(evaluator)
        several(evaluator)
    lib.finish()


if __name__ == "__main__":
    main()
