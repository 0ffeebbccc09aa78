"""How much of the communication a step hides, and what that saves: the program trains a model whose
nodes take at least 10 ms over an imitated link that takes 40% of a serial step, once with everything
issued to one stream and once overlapped, in turns.
"""
import json
import os
import statistics
import subprocess

from replay import Trace, is_transfer, replay, times_alone

SHARE = 0.40  # of a serial step that is communication
SHAPE = {"layers": 2, "dense-layers": 0, "width": 256, "heads": 8, "experts": 8, "top-k": 2,
         "expert-width": 256, "seq": 256, "micro-batch-size": 8, "microbatches": 32, "ep": 2}


def train(program, out, gbps, overlap, steps, shape=None):
    """Steps of a run: the lines of its metrics, and the trace of the last."""
    options = {**SHAPE, **(shape or {}), "out": out, "steps": steps, "link-gbps": gbps, "link-us": 20,
               "overlap": overlap, "delay-wgrad": "on", "eval-batches": 1, "eval-every": 0,
               "checkpoint-every": 0}
    words = [w for k, v in options.items() for w in ("--" + k, str(v))]
    done = subprocess.run([program, "train", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"bench: {program} train failed: {done.stderr.strip().splitlines()[-1]}")
    with open(os.path.join(out, "metrics.jsonl")) as f:
        return [json.loads(line) for line in f], Trace(os.path.join(out, "trace.json"))


def communication(serial):
    """Seconds of transfer, and of everything, in a serial step of rank 0."""
    nodes = serial.nodes(0, "compute")
    spans = [e for n in nodes if is_transfer(n)
             for e in serial.inside(0, "compute", "transfer", n)]
    waits = [e for n in nodes if is_transfer(n) for e in serial.inside(0, "compute", "peers", n)]
    total = sum(n["dur"] for n in nodes) - sum(e["dur"] for e in waits)
    return sum(e["dur"] for e in spans) * 1e-6, total * 1e-6


def calibrate(program, out):
    """Gbit/s at which transfers take SHARE of a serial step."""
    gbps = 2.0
    for _ in range(3):
        _, serial = train(program, out, gbps, "off", 2, {"microbatches": 8})
        transfer, total = communication(serial)
        gbps *= transfer / (SHARE / (1 - SHARE) * (total - transfer))
    return gbps


def measure(program, folder, say):
    gbps = calibrate(program, os.path.join(folder, "calibrate"))
    ratio, path, hid, ideal, smallest = [], [], [], [], []
    share = []
    for i in range(3):
        off, serial = train(program, os.path.join(folder, "off"), gbps, "off", 2)
        on, overlapped = train(program, os.path.join(folder, "on"), gbps, "on", 2)
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
        say(f"overlap {i + 1}/3: communication {share[-1]:.0%} of serial, hidden {hid[-1]:.1%} "
            f"(this order at best {best:.1%}), step {ratio[-1]:.3f} of serial, "
            f"{path[-1]:.3f} of critical path")
    note = (f"imitated link {gbps:.2f} Gbit/s, communication {statistics.median(share):.0%} of serial, "
            f"32 microbatches, nodes of {statistics.median(smallest):.0f} ms and more")
    m = statistics.median
    return [
        {"name": "overlap.hidden", "value": m(hid), "unit": "share", "versus": "replayed order",
         "versus_value": m(ideal), "ratio": m(hid) / m(ideal), "note": note},
        {"name": "overlap.step_over_serial", "value": m(ratio), "unit": "times", "versus": "serial",
         "versus_value": 1.0, "ratio": 1 / m(ratio), "note": note},
        {"name": "overlap.step_over_critical_path", "value": m(path), "unit": "times",
         "versus": "critical path", "versus_value": 1.0, "ratio": 1 / m(path), "note": note},
    ]
