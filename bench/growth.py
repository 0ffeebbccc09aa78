#!/usr/bin/env python3
"""`make bench-growth`: what more ranks cost, as the tables of docs/scaling.md.

    growth.py FOLDER     of the built benchmarks
"""
import json
import os
import shutil
import subprocess
import sys

from processes import LAUNCH
from programs import last

RANKS = (1, 2, 4, 8, 16)
SIMULATED = (16, 64, 256, 1024, 4096)
LIMIT_S = 120


def figures(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env={**os.environ, **LAUNCH})
    if done.returncode != 0:
        raise SystemExit(f"growth: {' '.join(command)} failed: {last(done.stderr)}")
    return {row["name"]: row["value"] for row in map(json.loads, done.stdout.splitlines())}


def line(*words):
    print("| " + " | ".join(words) + " |", flush=True)


def ranks(program):
    line("ranks", "as", "set-up, ms", "memory, MB a rank", "step, ms", "over simulated", "memory after, MB a rank")
    line(*["---"] * 7)
    for kind, launch in (("threads", []), ("processes", ["mpirun", "-n"])):
        if launch and not shutil.which(launch[0]):
            print("ranks as processes are left out: no mpirun here")
            continue
        for n in RANKS:
            v = figures([*launch, *([str(n)] if launch else []), program, kind, str(n)])
            line(str(n), kind, f"{v['set_up']:.1f}", f"{v['set_up_memory']:.1f}", f"{v['step']:.0f}",
                 f"{v['step_over_simulated']:.3f}", f"{v['memory']:.1f}")


def simulator(program):
    line("ranks", "microbatches", "actions", "generate, ms", "check and simulate, ms", "million actions/s", "memory, MB")
    line(*["---"] * 7)
    for n in SIMULATED:
        v = figures([program, "simulate", str(n)])
        line(f"{n:,}", f"{2 * n:,}", f"{v['actions']:,.0f}", f"{v['generate']:.1f}", f"{v['check_and_simulate']:.1f}",
             f"{v['actions'] / v['check_and_simulate'] / 1e3:.1f}", f"{v['memory']:,.0f}")


def main():
    program = os.path.join(sys.argv[1], "bench_growth")
    print(f"load average before: {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores\n")
    ranks(program)
    print()
    simulator(program)


main()
