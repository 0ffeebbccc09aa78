"""The benchmarks in C, and peers: running them and reading their figures."""
import json
import os
import subprocess

PYTHON = "/usr/bin/python3"  # Debian's, which finds Debian's PyTorch
OPENMP = "/usr/lib/x86_64-linux-gnu/openblas-openmp"  # the variant that PyTorch is fastest with
LIMIT_S = 90  # of a script on PyTorch, which takes 5; with its cores taken by others it may take hours


def lines(path, env=None, arguments=()):
    """Name to value, of a program that prints {"name", "value", "unit"} a line."""
    done = subprocess.run([path, *arguments], capture_output=True, text=True,
                          env={**os.environ, **(env or {})})
    if done.returncode != 0:
        raise SystemExit(f"bench: {path} failed: {last(done.stderr)}")
    return {row["name"]: row["value"] for row in map(json.loads, done.stdout.splitlines())}


def last(text):
    return (text.strip().splitlines() or ["no word"])[-1]


def python(here, script, *arguments):
    """What a script on PyTorch printed, and why there is nothing."""
    if not os.path.exists(PYTHON):
        return None, f"no {PYTHON}"
    try:
        done = subprocess.run([PYTHON, os.path.join(here, script), *arguments], capture_output=True,
                              text=True, env={**os.environ, "LD_LIBRARY_PATH": OPENMP}, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return None, f"{script} took more than {LIMIT_S} s: is the machine busy?"
    if done.returncode != 0:
        return None, last(done.stderr)
    return json.loads(done.stdout), None


def row(name, value, unit, versus=None, versus_value=None, ratio=None, note=None):
    made = {"name": name, "value": value, "unit": unit, "versus": versus, "versus_value": versus_value,
            "ratio": ratio}
    return {**made, "note": note} if note else made
