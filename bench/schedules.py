"""Actions a second through check and simulation of a schedule, and the memory that the largest one takes."""
import os

from programs import lines, row

KINDS = ("1f1b", "zb-h1", "interleaved")  # 16 ranks, 128 microbatches
WANTED_PER_S, WANTED_BYTES = 5e6, 2 << 30


def measure(built, say):
    v = lines(os.path.join(built, "bench_schedule_speed"))
    for key in (*KINDS, "large"):
        say(f"schedule {key}, {v[key + '.actions']:,.0f} actions: millions a second: "
            + ", ".join(f"{part} {v[key + '.' + part] / 1e6:.3g}" for part in ("generate", "check", "simulate")))
    slowest = min(KINDS, key=lambda key: v[key + ".both"])
    both, large, peak = v[slowest + ".both"], v["large.both"], v["large.peak_bytes"]
    note = (f"schedule.actions_per_s: check and simulation, one core, the slowest of {', '.join(KINDS)} at 16 ranks "
            "and 128 microbatches; large: 1f1b at 512 and 4,096")
    return [row("schedule.actions_per_s", both, "actions/s", "wanted", WANTED_PER_S, both / WANTED_PER_S, note),
            row("schedule.large_actions_per_s", large, "actions/s", "wanted", WANTED_PER_S, large / WANTED_PER_S),
            row("schedule.large_peak_bytes", peak, "bytes", "wanted", WANTED_BYTES, WANTED_BYTES / peak)]
