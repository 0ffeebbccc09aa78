"""Tokens a second of a whole training step of the demo's model, without an imitated link, beside PyTorch on
the same model, data and two threads; and of a pipeline of two stages beside one rank on the same cores. In turns,
medians of several.
"""
import json
import os
import statistics
import subprocess

from programs import python, row

SHAPE = {"layers": 4, "width": 128, "heads": 4, "experts": 8, "top-k": 2, "expert-width": 128,
         "dense-layers": 1, "dense-width": 384, "shared-width": 0, "seq": 64}
ROUNDS, STEPS = 3, 40


EXPERT_RANKS = {"ep": 2, "microbatches": 2, "micro-batch-size": 4}
ONE_RANK = {"ep": 1, "pp": 1, "microbatches": 8, "micro-batch-size": 2}
TWO_STAGES = {**ONE_RANK, "pp": 2, "schedule": "zb-h1"}


def ours(program, out, text, ranks):
    options = {**SHAPE, **ranks, "data": text, "out": out, "steps": STEPS, "cores": 2, "link-gbps": 0, "link-us": 0,
               "eval-batches": 1, "eval-every": 0, "checkpoint-every": 0}
    words = [w for k, v in options.items() for w in ("--" + k, str(v))]
    subprocess.run([program, "train", *words], check=True, capture_output=True)
    with open(os.path.join(out, "metrics.jsonl")) as f:
        return statistics.median(json.loads(line)["tokens_per_s"] for line in list(f)[5:])


def pytorch(here, folder, text):
    options = {**SHAPE, "sequences": 16, "threads": 2, "steps": STEPS, "lr": 3e-3, "aux-coef": 0.01}
    path = os.path.join(folder, "pytorch.json")
    with open(path, "w") as f:
        json.dump(options, f)
    return python(here, "peer_pytorch.py", path, text)


def write_text(folder):
    """One file of C headers, the same for both."""
    path = os.path.join(folder, "headers.txt")
    names = sorted(os.path.join(d, n) for d, _, files in os.walk("/usr/include/linux")
                   for n in files if n.endswith(".h"))
    with open(path, "wb") as out:
        for name in names:
            with open(name, "rb") as f:
                out.write(f.read())
    return path


def measure(program, folder, here, say):
    text = write_text(folder)
    mine, theirs, why = [], [], None
    pipe, alone = [], []
    for i in range(ROUNDS):
        mine.append(ours(program, os.path.join(folder, "tokens"), text, EXPERT_RANKS))
        if why is None:
            peer, why = pytorch(here, folder, text)
            theirs += [peer["tokens_per_s"]] if peer else []
        say(f"tokens {i + 1}/{ROUNDS}: {mine[-1]:.0f} a second, "
            + (f"PyTorch {theirs[-1]:.0f}" if theirs else f"PyTorch absent: {why}"))
        pipe.append(ours(program, os.path.join(folder, "pipeline"), text, TWO_STAGES))
        alone.append(ours(program, os.path.join(folder, "alone"), text, ONE_RANK))
        say(f"two stages {pipe[-1]:.0f}, one rank on both cores {alone[-1]:.0f}")
    value = statistics.median(mine)
    versus = statistics.median(theirs) if theirs else None
    note = ("global batch 16 x 64 tokens, 2 cores: two ranks with two microbatches of 4 sequences each; PyTorch "
            "takes the batch in one piece")
    return [row("train.tokens_per_s", value, "tokens/s", "pytorch", versus, versus and value / versus,
                note if theirs else f"PyTorch skipped: {why}"),
            row("train.pipeline_tokens_per_s", statistics.median(pipe), "tokens/s", "one rank",
                statistics.median(alone), statistics.median(pipe) / statistics.median(alone))]
