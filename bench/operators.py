"""GFLOP/s of the operators that are products, over the BLAS's on one core in the same run: the table of
bench_ops_speed in one line a kind, forward and backward of all its shapes together.
"""
import os
import re
import statistics
import subprocess

from programs import last, row

KINDS = ("linear", "grouped", "attention")


def table(program, kind):
    """GFLOP/s of the BLAS, and all rates of the kind."""
    done = subprocess.run([program, kind], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"bench: {program} failed: {last(done.stderr)}")
    peak, *rates = map(float, re.findall(r"([0-9.]+) GFLOP/s", done.stdout))
    return peak, rates


def measure(built, say):
    rows = []
    for kind in KINDS:
        peak, rates = table(os.path.join(built, "bench_ops_speed"), kind)
        rate = statistics.harmonic_mean(rates)
        say(f"operators, {kind}: {rate:.1f} of {peak:.1f} GFLOP/s")
        rows.append(row(f"ops.{kind}_over_blas", rate, "GFLOP/s", "blas peak", peak, rate / peak))
    return rows
