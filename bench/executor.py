"""Schedules run by the executor beside the same schedules simulated, and what an action costs the issuing
thread."""
import os

from programs import lines, row

WANTED = 1.05


def measure(built, say):
    v = lines(os.path.join(built, "bench_schedule_run"))
    ratios = {name[len("makespan."):]: value for name, value in v.items() if name.startswith("makespan.")}
    worst = max(ratios, key=ratios.get)
    say("measured over simulated makespan: " + ", ".join(f"{name} {r:.3f}" for name, r in ratios.items()))
    note = f"schedule.makespan_over_simulated: the worst of {len(ratios)}, {worst} (schedule.ranks), work of 10 ms a piece"
    return [row("schedule.makespan_over_simulated", ratios[worst], "times", "wanted", WANTED,
                WANTED / ratios[worst], note),
            row("exec.action", v["action_ns.1"], "ns"),
            row("exec.action_with_transfer", v["action_ns.2"], "ns")]
