"""Empty launches a second on one stream, beside empty tasks of other runtimes with one worker."""
import os
import statistics

from programs import lines, row

ROUNDS = 5


def peers(built):
    return {name: os.path.join(built, "bench_peer_" + name) for name in ("starpu", "pocl")}


def measure(built, folder, say):
    absent = [name for name, path in peers(built).items() if not os.path.exists(path)]
    env = {"STARPU_HOME": folder, "STARPU_SILENT": "1", "XDG_CACHE_HOME": folder, "POCL_CACHE_DIR": folder}
    runs = []
    for i in range(ROUNDS):
        found = lines(os.path.join(built, "bench_launch_speed"))
        for name, path in peers(built).items():
            if name not in absent:
                found.update(lines(path, env))
        runs.append(found)
        say(f"launch {i + 1}/{ROUNDS}: " + ", ".join(f"{k} {v / 1e6:.2f}" for k, v in found.items())
            + " million tasks/s")
    middle = {name: statistics.median(r[name] for r in runs) for name in runs[0]}
    ours, ring = middle.pop("stream.launch"), middle.pop("ring")
    best = max(middle, key=middle.get, default=None)
    note = "; ".join([f"{name} {middle[name] / 1e6:.2f}" for name in sorted(middle)]
                     + [f"{name} is not installed" for name in absent])
    return [row("stream.launch", ours, "launches/s", best, middle.get(best),
                best and ours / middle[best], f"million tasks a second: {note}"),
            row("stream.launch_over_ring", ours, "launches/s", "bare ring", ring, ours / ring)]
