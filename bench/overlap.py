"""How much of the communication a step hides, and what that saves: the program trains a model whose
nodes take at least 10 ms over an imitated link that takes 40% of a serial step, once with everything
issued to one stream and once overlapped, in turns.

Every token visits every expert, so that each rank has the same work in each microbatch, as benchmarks
of mixtures have it that force a balanced load. Attention takes as long as the experts do: a transfer
runs beside one or the other, and what is longer than its companion cannot be hidden by any runtime.
"""
import collections
import json
import os
import statistics
import subprocess

from programs import last, row
from replay import Trace, is_transfer, replay, times_alone

SHARE = 0.40  # of a serial step that is communication
MICROBATCHES = 24
SHAPE = {"layers": 2, "dense-layers": 0, "width": 256, "heads": 8, "experts": 2, "top-k": 2,
         "expert-width": 384, "seq": 2048, "micro-batch-size": 1, "microbatches": MICROBATCHES, "ep": 2}


def imitated(program):
    """A link is a function from Gbit/s to the words of a command and its options."""
    return lambda gbps: ([program, "train"], {"link-gbps": gbps, "link-us": 20})


def train(link, out, gbps, overlap, steps, shape=None):
    """Steps of a run: the lines of its metrics, and the trace of the last."""
    command, options = link(gbps)
    options = {**SHAPE, **(shape or {}), **options, "out": out, "steps": steps, "overlap": overlap,
               "delay-wgrad": "on", "eval-batches": 1, "eval-every": 0, "checkpoint-every": 0}
    words = [w for k, v in options.items() for w in ("--" + k, str(v))]
    done = subprocess.run([*command, *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"bench: {' '.join(command)} failed: {last(done.stderr)}")
    with open(os.path.join(out, "metrics.jsonl")) as f:
        return [json.loads(line) for line in f], Trace(os.path.join(out, "trace.json"))


def communication(serial):
    """Seconds of transfer, and of everything, in a serial step of rank 0. Nodes of a kind do the same work,
    so their median stands for each: a node that something else on the machine held up does not count."""
    nodes, transfers = collections.defaultdict(list), collections.defaultdict(list)
    for n in serial.nodes(0, "compute"):
        kind = n["name"], n["args"]["direction"]
        span = lambda what: sum(e["dur"] for e in serial.inside(0, "compute", what, n))
        if is_transfer(n):
            transfers[kind].append(span("transfer"))
            nodes[kind].append(n["dur"] - span("peers"))
        else:
            nodes[kind].append(n["dur"])
    total = lambda kinds: sum(statistics.median(t) * len(t) for t in kinds.values()) * 1e-6
    return total(transfers), total(nodes)


def calibrate(link, out):
    """Gbit/s at which transfers take SHARE of a serial step."""
    gbps = 2.0
    for _ in range(3):
        _, serial = train(link, out, gbps, "off", 2, {"microbatches": 8})
        transfer, total = communication(serial)
        gbps *= transfer / (SHARE / (1 - SHARE) * (total - transfer))
    return gbps


def measure(link, folder, say, name="overlap", what="imitated link"):
    gbps = calibrate(link, os.path.join(folder, "calibrate"))
    ratio, path, hid, ideal, smallest = [], [], [], [], []
    share = []
    for i in range(3):
        off, serial = train(link, os.path.join(folder, "off"), gbps, "off", 2)
        on, overlapped = train(link, os.path.join(folder, "on"), gbps, "on", 2)
        transfer, total = communication(serial)
        seconds, best = replay(overlapped, times_alone(serial))
        ratio.append(on[-1]["step_ms"] / off[-1]["step_ms"])
        path.append(overlapped.seconds() / seconds)
        hid.append(on[-1]["comm_hidden"])
        ideal.append(best)
        share.append(transfer / total)
        smallest.append(min(n["dur"] for n in serial.nodes(0, "compute")
                            if n["args"].get("layer", -1) >= 0
                            and n["args"]["direction"] != "wgrad") * 1e-3)
        say(f"{name} {i + 1}/3: communication {share[-1]:.0%} of serial, hidden {hid[-1]:.1%} "
            f"(this order at best {best:.1%}), step {ratio[-1]:.3f} of serial, "
            f"{path[-1]:.3f} of critical path")
    m = statistics.median
    note = (f"{what} {gbps:.2f} Gbit/s, communication {m(share):.0%} of serial, "
            f"{MICROBATCHES} microbatches, nodes of {m(smallest):.0f} ms and more")
    return [
        row(f"{name}.hidden", m(hid), "share", "replayed order", m(ideal), m(hid) / m(ideal), note),
        row(f"{name}.step_over_serial", m(ratio), "times", "serial", 1.0, 1 / m(ratio), note),
        row(f"{name}.step_over_critical_path", m(path), "times", "critical path", 1.0, 1 / m(path), note),
    ]
