"""Training on a GPU, one rank: whether losses are the host's, and tokens a second beside PyTorch."""
import json
import math
import os
import shutil
import statistics
import sys

import tokens

TEXT = "LICENSE"  # of the repository, which is the working folder
PLAIN = {"ep": 1, "pp": 1, "link-gbps": 0, "link-us": 0, "timeout": 60, "eval-every": 0, "checkpoint-every": 0,
            "eval-batches": 1}
SMALL = {"layers": 3, "width": 64, "heads": 4, "experts": 8, "expert-width": 64, "dense-width": 128,
         "shared-width": 32, "seq": 64, "microbatches": 4, "steps": 20}
TINY = {"layers": 2, "width": 16, "heads": 2, "experts": 4, "expert-width": 16, "dense-width": 16, "seq": 8,
        "micro-batch-size": 1, "microbatches": 2, "steps": 2}  # for the double, where a step of SMALL takes seconds
# Relative: of the first loss, which is a forward alone; and of any. A sum in another order moves the last bits, and
# training enlarges what it is given. On the double 20 steps of SMALL stayed within 1e-5.
FIRST, ANY = 1e-5, 5e-3
# The demo's model, which leaves a GPU idle most of the time, and one that does not.
LARGER = {"layers": 4, "width": 1024, "heads": 16, "experts": 8, "top-k": 2, "expert-width": 512, "dense-layers": 1,
          "dense-width": 2048, "shared-width": 0, "seq": 512}
MODELS = (("demo", tokens.SHAPE, 16, 40), ("larger", LARGER, 8, 20))  # sequences of a step, steps
WARM = 5  # steps that do not count
OWN_LIBRARIES = {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}  # PyTorch takes none of those of --pack
TRAIN_LIMIT_S, TORCH_LIMIT_S = 45, 40


def train(check, device, options, name, limit=TRAIN_LIMIT_S):
    """The lines of a run's metrics; None where it failed, with a row that says so."""
    out = os.path.join(check.out, "run")
    told = {**PLAIN, "device": device, "data": TEXT, "out": out, **options}
    words = [w for k, v in told.items() for w in (("--" + k,) if v is True else ("--" + k, str(v)))]
    shutil.rmtree(out, ignore_errors=True)
    ended = check.run([check.program("headrace"), "train", *words], limit)
    lines = None
    if ended.why:
        check.row(name, "failed", f"training on {device} {ended.why}")
    else:
        with open(os.path.join(out, "metrics.jsonl")) as f:
            lines = [json.loads(line) for line in f]
    shutil.rmtree(out, ignore_errors=True)
    return lines


# ---- comparison
def differences(ours, theirs):
    return [abs(a["loss"] - b["loss"]) / abs(b["loss"]) for a, b in zip(ours, theirs, strict=True)]


def like_host(check, name, ours, host):
    apart = differences(ours, host)
    good = apart[0] <= FIRST and all(a <= ANY for a in apart)  # NaN is not
    worst = max(apart, key=lambda a: math.inf if math.isnan(a) else a)
    check.row(name, "passed" if good else "failed",
              f"{len(apart)} steps; the first {apart[0]:.1e}, at most {FIRST:.0e}; any at most {ANY:.0e}", worst,
              "relative")


def compare(check):
    shape = TINY if check.double else SMALL
    host = train(check, "host", shape, "losses.host")
    plain = train(check, "cuda", shape, "losses.cuda") if host else None
    if not plain:
        return
    like_host(check, "losses.like_host", plain, host)
    for name, more in (("again", {}), ("overlapped", {"overlap": "on"}), ("checked", {"check": True})):
        lines = train(check, "cuda", {**shape, **more}, f"losses.{name}")
        if lines:
            same = all(a[k] == b[k] for a, b in zip(lines, plain, strict=True) for k in ("loss", "grad_norm"))
            check.row(f"losses.{name}", "passed" if same else "failed",
                      f"{'' if same else 'not '}the same bits as the first run")


# ---- speed
def our_speed(check, model, shape, sequences, steps):
    lines = train(check, "cuda", {**shape, "microbatches": 1, "micro-batch-size": sequences, "steps": steps},
                  f"tokens.{model}")
    return statistics.median(line["tokens_per_s"] for line in lines[WARM:]) if lines else None


def torch_python(check):
    """A Python whose PyTorch sees a GPU; or None, and why there is none."""
    look = "import sys, torch; sys.exit(None if torch.cuda.is_available() else 'PyTorch sees no GPU')"
    why = "no python3"
    for python in dict.fromkeys(filter(None, (shutil.which("python3"), sys.executable, "/usr/bin/python3"))):
        ended = check.run([python, "-c", look], TORCH_LIMIT_S, OWN_LIBRARIES)
        if ended.why is None:
            return python, None
        why = ended.why
    return None, why


def torch_speed(check, python, shape, sequences, steps):
    """Tokens a second, and why there are none."""
    options = os.path.join(check.out, "pytorch.json")
    with open(options, "w") as f:
        json.dump({**shape, "sequences": sequences, "threads": os.cpu_count(), "steps": steps, "lr": 3e-3,
                   "aux-coef": 0.01, "device": "cuda"}, f)
    ended = check.run([python, "bench/peer_pytorch.py", options, TEXT], TORCH_LIMIT_S,
                      OWN_LIBRARIES)
    os.remove(options)
    return (None, ended.why) if ended.why else (json.loads(ended.out.splitlines()[-1])["tokens_per_s"], None)


def speed(check):
    if check.double:
        check.row("tokens", "skipped", "no figure on a test double")
        return
    python, why = torch_python(check)
    for model, shape, sequences, steps in MODELS:
        ours = our_speed(check, model, shape, sequences, steps)
        theirs = None
        if python:
            theirs, why = torch_speed(check, python, shape, sequences, steps)
        if ours:
            check.row(f"tokens.{model}", "measured", f"a step is {sequences} x {shape['seq']} tokens in one piece, f32",
                      ours, "tokens/s", "PyTorch", theirs)
        if why:
            check.row(f"tokens.{model}.pytorch", "skipped", why)
