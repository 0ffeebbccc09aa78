#!/usr/bin/env python3
"""What scripts/gpu-check.sh runs once things are built: parts, each under a time limit, a table, and a JSON file. Ends
with 0: all passed; 1: something failed; 2: there is no GPU, or a test double in its place that was not asked for; 64:
the command line is wrong. docs/cuda.md says what the rows mean.
"""
import argparse
import datetime
import json
import os
import re
import signal
import subprocess
import sys
import time

import gpu_libraries
import gpu_ranks
import gpu_run
import gpu_speed
import gpu_suites
import gpu_train

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# In this order: what says most comes first, and what may hang last. With the 120 s that gpu-check.sh gives to building
# it is less than ten minutes, whatever hangs. A GPU that no process holds may take seconds to start, for each suite.
PARTS = {"train": (gpu_train.compare, 60), "suites": (gpu_suites.run, 150), "node": (gpu_speed.nodes, 20),
         "launches": (gpu_speed.launches, 20), "overlap": (gpu_speed.overlap, 20), "tokens": (gpu_train.speed, 120),
         "ranks": (gpu_ranks.run, 60), "waits": (gpu_suites.run_waits, 20)}
WHOLE_S = 590
INFO_LIMIT_S = 20
USAGE = 64
TARGETS = ["headrace", "bench_node_speed", "bench_gpu_launches", "bench_gpu_overlap"]


def options():
    p = argparse.ArgumentParser(prog="gpu-check.sh", description="Checks and measures Headrace on a GPU.")
    p.add_argument("--built", required=True, help="folder of the build")
    p.add_argument("--out", required=True, help="folder for gpu-check.json and gpu-check.log")
    p.add_argument("--parts", default=",".join(PARTS), help="which: " + ", ".join(PARTS))
    p.add_argument("--limit", type=float, default=WHOLE_S, help="seconds that no part may exceed")
    p.add_argument("--on-double", action="store_true", help="use the test double of the build, not a GPU")
    p.add_argument("--probe", action="store_true", help="only look for a GPU")
    p.add_argument("--began", type=float, default=time.time(), help="when the whole began, in seconds since 1970")
    p.add_argument("--targets", action="store_true", help="only print what has to be built")
    try:
        o = p.parse_args()
        o.parts = o.parts.split(",")
        unknown = [name for name in o.parts if name not in PARTS]
        if unknown:
            p.error(f"no part '{unknown[0]}'; there are {', '.join(PARTS)}")
    except SystemExit as e:  # with 2, which means something else here
        sys.exit(USAGE if e.code else 0)
    return o


class Check(gpu_run.Check):
    def told(self, kind="backends", name="cuda", env=None):
        """Is it on, and what `headrace info` says of it."""
        ended = self.run([self.program("headrace"), "info", "--json"], INFO_LIMIT_S, env, aloud=False)
        if ended.why:
            return False, f"headrace info {ended.why}"
        found = next(b for b in json.loads(ended.out)[kind] if b["name"] == name)
        return found["on"], found.get("about", name) if found["on"] else found["why_off"]


def use_double(check):
    """The doubles that were built, with hardware's ways: memory hidden from the host, host functions in turns."""
    doubles = check.program("tests", "doubles")
    check.env.update(HEADRACE_CUDART=os.path.join(doubles, "libcudart_double.so"),
                     HEADRACE_CUBLAS=os.path.join(doubles, "cublas", "libcublas_double.so"),
                     HEADRACE_NCCL=os.path.join(doubles, "nccl", "libnccl_double.so"), HEADRACE_DOUBLE_DEVICES="2",
                     HEADRACE_DOUBLE_HIDDEN="1", HEADRACE_DOUBLE_ONE_THREAD="1")


def refusal(check, on, told):
    """Why nothing is run; None: there is what was asked for."""
    if not on:
        return told
    if told.startswith(gpu_run.ON_DOUBLE) and not check.double:
        return f"{told}: no GPU is used; --on-double allows that"
    if check.double and not told.startswith(gpu_run.ON_DOUBLE):
        return f"--on-double, but this is none: {told}"
    return None


def asked(words):
    """The lines that a command prints; none where it fails."""
    try:
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=INFO_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.strip().splitlines() if done.returncode == 0 else []


def revision(built):
    """Of the source: git's word for it, or what --pack noted."""
    noted = os.path.join(built, "revision")
    if os.path.exists(noted):
        with open(noted) as f:
            return f.read().strip()
    return next(iter(asked(["git", "describe", "--always", "--dirty", "--abbrev=40"])), "unknown")


def cards(double):
    """Name, driver and memory of each GPU that a process sees, as nvidia-smi has it."""
    if double:
        return [["none"] + [None] * 2] * 2
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    found = [card for card in (line.split(", ") for line in asked(query)) if len(card) == 3]
    seen = [n for n in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if n]
    if seen and all(n.isdigit() and int(n) < len(found) for n in seen):
        found = [found[int(n)] for n in seen]
    elif seen:  # by other names than numbers
        found = found[:len(seen)]
    return found or [["unknown (no nvidia-smi)", None, None]]


def facts(built, told, double):
    """What the figures belong to."""
    found = re.search(r"(\d+\.\d+), driver (\d+\.\d+), compute capability (\d+\.\d+)", told)
    runtime, driver, capability = found.groups() if found else (None,) * 3
    all_cards = cards(double)
    card, package, memory = all_cards[0]
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "card": card,
            "gpus": len(all_cards), "memory": memory, "driver": package, "driver_cuda": driver, "runtime": runtime,
            "compute_capability": capability, "about": told, "git": revision(built), "host": os.uname().nodename,
            "cores": os.cpu_count()}


def run_parts(check, parts, limit):
    for name in parts:
        part, most = PARTS[name]
        check.begin(name, min(most, limit))
        try:
            part(check)
        except Exception as e:  # a part that this script has a mistake in loses no other
            check.row(name, "failed", f"{type(e).__name__}: {e}")
        check.write(whole=False)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # and end what is running
    o = options()
    if o.targets:
        print(*TARGETS, *gpu_suites.targets())
        return 0
    end = time.monotonic() + o.began + WHOLE_S - time.time()
    check = Check(os.path.abspath(o.built), ROOT, os.path.abspath(o.out), o.on_double, end)
    named = {} if check.double else gpu_libraries.find(check.env)
    if check.double:
        use_double(check)
    told = check.told()
    why = refusal(check, *told)
    if why:
        print(why, file=sys.stderr)
        return 2
    if o.probe:
        return 0
    check.facts = {**facts(check.built, told[1], check.double), **named}
    for name, value in check.facts.items():
        check.say(f"{name}: {value}")
    run_parts(check, o.parts, o.limit)
    check.write(whole=True)
    print()
    for row in check.rows:
        check.say(gpu_run.line_of(row))
    count = check.count()
    check.say(", ".join(f"{n} {verdict}" for verdict, n in count.items()))
    check.say(f"written: {os.path.join(check.out, 'gpu-check.json')}, and what was printed in gpu-check.log beside it")
    return 1 if count["failed"] or not count["passed"] + count["measured"] else 0


sys.exit(main())
