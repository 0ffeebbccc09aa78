"""Bytes of activations at the highest point of an overlapped step, over what has to be there (see
memory_model.py), with inputs freed and attention released early; and what that saves.
"""
import os

from memory_model import predict
from programs import lines, row


def compare(program, say, symmetric):
    """Peak over predicted with and without giving memory up early, and the figures."""
    name = "symmetric" if symmetric else "all-to-all"
    peaks = []
    for early in (True, False):
        options = [str(int(o)) for o in (early, early, symmetric)]
        got = {k: int(v) for k, v in lines(program, arguments=options).items()}
        saved, peak = predict(got, frees=early, early=early)
        say(f"memory, {name}, inputs {'freed' if early else 'kept'}: a microbatch {got['saved']:,} bytes "
            f"(predicted {saved:,}), peak {got['peak']:,} (predicted {peak:,})")
        peaks.append((got["peak"], peak))
    (freed, predicted), (kept, _) = peaks
    note = (f"{name} dispatcher: peak of {got['layers']} layers {freed / 2**20:.2f} MiB, without free_input and "
            f"early release {kept / 2**20:.2f} MiB")
    return freed / predicted, note


def measure(built, say):
    program = os.path.join(built, "bench_peak_memory")
    rows = []
    for name, symmetric in (("memory.peak_over_predicted", False),
                            ("memory.peak_over_predicted.symmetric", True)):
        ratio, note = compare(program, say, symmetric)
        rows.append(row(name, ratio, "times", "predicted", 1.0, 1 / ratio, note))
    return rows
