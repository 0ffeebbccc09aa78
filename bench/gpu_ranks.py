"""Ranks on GPUs of their own, which exchange over NCCL: whether losses are those of as many ranks on the host, and how
much of the exchange of tokens an overlapped step hides.
"""
import gpu_train

LAYOUTS = {"ep2": {"ep": 2}, "pp2": {"pp": 2, "microbatches": 4}, "dp2": {"dp": 2, "shard-optimizer": "on"}}
# With real work between transfers; the serial step issues everything to one stream.
LARGER = {**gpu_train.LARGER, "ep": 2, "microbatches": 8, "micro-batch-size": 2, "steps": 8}


def compare(check):
    shape = gpu_train.TINY if check.double else gpu_train.SMALL
    for name, layout in LAYOUTS.items():
        host = gpu_train.train(check, "host", {**shape, **layout}, f"ranks.{name}.host")
        ours = gpu_train.train(check, "cuda", {**shape, **layout}, f"ranks.{name}.cuda") if host else None
        if ours:
            gpu_train.like_host(check, f"ranks.{name}.like_host", ours, host)


def overlap(check):
    steps = {how: gpu_train.train(check, "cuda", {**LARGER, "overlap": how}, f"ranks.overlap_{how}")
             for how in ("off", "on")}
    if all(steps.values()):
        serial, overlapped = (min(line["step_ms"] for line in steps[how][2:]) for how in ("off", "on"))
        check.row("ranks.hidden", "measured", "of the time of transfers", steps["on"][-1]["comm_hidden"], "share")
        check.row("ranks.step", "measured", "all-to-all behind another microbatch", overlapped, "ms", "serial", serial)


def run(check):
    on, told = check.told("engines", "nccl")
    gpus = check.facts["gpus"]
    if not on or gpus < 2:
        check.row("ranks", "skipped", told if not on else f"{gpus} GPU: each rank wants one of its own")
        return
    compare(check)
    if not check.double:
        overlap(check)
