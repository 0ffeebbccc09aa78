"""Schedules run by the executor beside the same schedules simulated, one that was searched for beside 1F1B, and
what an action costs the issuing thread."""
import os

from programs import lines, row

WANTED = 1.05


def measure(built, say):
    v = lines(os.path.join(built, "bench_schedule_run"))
    ratios = {name[len("makespan."):]: value for name, value in v.items() if name.startswith("makespan.")}
    worst = max(ratios, key=ratios.get)
    say("measured over simulated makespan: " + ", ".join(f"{name} {r:.3f}" for name, r in ratios.items()))
    note = f"schedule.makespan_over_simulated: the worst of {len(ratios)}, {worst} (schedule.ranks), work of 10 ms a piece"
    start, found = v["auto.1f1b_ms"], v["auto.found_ms"]
    uneven = ("schedule.auto_step: 4 ranks, 8 microbatches, stages of 1, 1.4, 0.8 and 1.2 times 10 ms for each of "
              "F, I and W")
    return [row("schedule.makespan_over_simulated", ratios[worst], "times", "wanted", WANTED,
                WANTED / ratios[worst], note),
            row("schedule.auto_step", found, "ms", "1F1B", start, start / found, uneven),
            row("exec.action", v["action_ns.1"], "ns"),
            row("exec.action_with_transfer", v["action_ns.2"], "ns")]
