"""Actions a second through check and simulation of a schedule, the memory that the largest one takes, what the
optimiser gains over the generators, and the time to generate tables that PyTorch generates too.
"""
import os
import subprocess

from programs import lines, python, row

KINDS = ("1f1b", "zb-h1", "interleaved")  # 16 ranks, 128 microbatches
WANTED_PER_S, WANTED_BYTES = 5e6, 2 << 30
SIZES = ("16", "4", "128")  # ranks, chunks a rank where the schedule leaves a choice, microbatches
FILES = "../build/peers/pipelining"  # of PyTorch, see scripts/install_deps.sh


def our_table(program, folder, name, chunks):
    """The orders of the ranks in text, as PyTorch's."""
    path = os.path.join(folder, name + ".csv")
    subprocess.run([program, "plan", "--schedule", name, "--pp", SIZES[0], "--vp", str(chunks),
                    "--microbatches", SIZES[2], "--csv", path], check=True, capture_output=True)
    with open(path) as f:
        return [line.replace(",", " ") for line in f.read().split()]


def generators(v, program, folder, here, say):
    peer, why = python(here, "peer_schedules.py", os.path.join(here, FILES), *SIZES)
    rows = []
    if peer is None:
        say(f"schedule generators: PyTorch absent: {why}")
    for name, said in (peer or {}).items():
        same = our_table(program, folder, name, said["chunks"]) == said["ranks"]
        ours = 1e3 * v[name + ".actions"] / v[name + ".generate"]
        say(f"schedule generator {name}: {ours:.3g} ms, PyTorch {said['ms']:.3g} ms, "
            + ("the same table" if same else "NOT the same table"))
        if same:
            rows.append(row(f"schedule.generate.{name}", ours, "ms", "pytorch", said["ms"], said["ms"] / ours))
    return rows or [row("schedule.generate", None, "ms", "pytorch", note=f"generators: PyTorch skipped: {why}")]


def search(built, say):
    v = lines(os.path.join(built, "bench_schedule_search"))
    worst, median = v["search.worst"], v["search.median"]
    say(f"schedule search: the best generator's makespan is {worst:.3g} to {v['search.best']:.3g} times what is found, "
        f"median {median:.3g}; shorter in {v['search.shorter']:.0f} of {v['search.cases']:.0f}; the slowest took "
        f"{v['search.longest_s']:.2g} s")
    note = (f"schedule.search_over_best_generator: the worst of {v['search.cases']:.0f} sizes, limits and costs, "
            "beside the median")
    return [row("schedule.search_over_best_generator", worst, "times", "median", median, worst, note)]


def measure(built, program, folder, here, say):
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
            row("schedule.large_peak_bytes", peak, "bytes", "wanted", WANTED_BYTES, WANTED_BYTES / peak),
            *search(built, say), *generators(v, program, folder, here, say)]
