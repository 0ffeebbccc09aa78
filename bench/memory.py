"""Bytes of activations at the highest point of an overlapped step, over what has to be there (see
memory_model.py), with inputs freed and attention released early; and what that saves.
"""
import os

from memory_model import predict
from programs import lines, row


def measure(built, say):
    program = os.path.join(built, "bench_peak_memory")
    found = {options: lines(program, arguments=[str(int(o)) for o in options])
             for options in ((True, True), (False, False))}
    freed, kept = found[True, True], found[False, False]
    for (frees, early), got in found.items():
        saved, peak = predict(got, frees, early)
        say(f"memory, free_input {frees}, early release {early}: saved {got['saved']:,.0f} "
            f"(predicted {saved:,}), peak {got['peak']:,.0f} (predicted {peak:,}) bytes")
    predicted = predict(freed)[1]
    ratio = freed["peak"] / predicted
    note = (f"peak of {freed['layers']:.0f} layers {freed['peak'] / 2**20:.2f} MiB, without free_input and "
            f"early release {kept['peak'] / 2**20:.2f} MiB; all-to-all dispatcher")
    return [row("memory.peak_over_predicted", ratio, "times", "predicted", 1.0, 1 / ratio, note)]
