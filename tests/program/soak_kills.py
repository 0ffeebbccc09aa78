"""Not one of the tests: kills runs under mpirun at random moments, a rank of theirs, all or the launcher, and
takes each up again, to the bits of the same run undisturbed. `make soak-kills`, minutes.

    KILLS=50 SEED=1 python3 soak_kills.py PROGRAM
"""
import collections
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time

from mpi_job import Job, checkpoint, lines, metrics
from mpi_kit import mpirun
from program_kit import run, tiny

KILLS = int(os.environ.get("KILLS", "50"))
SEED = int(os.environ.get("SEED", "1"))
ALL, LAUNCHER = "all", "the launcher"
VICTIMS = [0, 1, 2, 3, ALL, LAUNCHER]
STEPS = 200
WHOLE = {"steps": STEPS, "checkpoint_every": 5, "warmup": 10}
LAYOUTS = [
    {"pp": 2, "ep": 2},
    {"pp": 1, "ep": 4, "keep": 3},
    {"pp": 1, "ep": 2, "dp": 4, "mtp": "on"},
    {"pp": 4, "ep": 1, "vp": 2, "layers": 8, "schedule": "interleaved", "microbatches": 4},
]


def train(out, layout, **more):
    return mpirun((4, tiny(out=out, **WHOLE, **layout, **more)))


def must(words):
    ended = run(words)
    if ended.status != 0:
        raise AssertionError(ended.err)


def bits(out):
    return metrics(out), checkpoint(out)


def steps_and_drafts(out):
    """The names of the checkpoints that are there, and of those half written."""
    top = out / "checkpoint"
    names = sorted(os.listdir(top)) if top.exists() else []
    return [name for name in names if ".tmp" not in name], [name for name in names if ".tmp" in name]


def pids(job, victim):
    if victim == LAUNCHER:
        return [job.launcher.pid]
    name = f"OMPI_COMM_WORLD_RANK={victim}".encode()
    return [pid for pid, names in job.processes().items() if victim == ALL or name in names]


def kill(job, out, victim, chance):
    """At some step, or while it starts; it may also have ended by then."""
    step = chance.randrange(-STEPS // 10, STEPS + 2)
    pause = chance.uniform(0, 0.02 if step >= 0 else 1)
    while job.launcher.poll() is None and lines(out) < step:
        time.sleep(0.001)
    time.sleep(pause)
    for pid in pids(job, victim):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def disturbed(folder, out, layout, victim, chance):
    """A run that is killed, and nothing of it left; returns how it was met."""
    job = Job(folder, train(out, layout))
    try:
        kill(job, out, victim, chance)
        status = job.ended().status
        processes, files = job.left()
    finally:
        job.close()
    if processes or (files and victim not in (ALL, LAUNCHER)):
        raise AssertionError(f"left behind: {processes} {files}")
    steps, drafts = steps_and_drafts(out)
    return ("when it was over" if status == 0 else "while a checkpoint was written or removed" if drafts
            else "before the first checkpoint" if not steps else "between checkpoints")


def take_up(out, layout):
    """To the end, where it is not there already."""
    steps, drafts = steps_and_drafts(out)
    if f"step-{STEPS:08}" not in steps:
        must(train(out, layout, resume=True if steps else None))
        return
    for draft in drafts:  # which the next run would remove
        shutil.rmtree(out / "checkpoint" / draft)


def main():
    chance, met = random.Random(SEED), collections.Counter()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="headrace-soak-"))
    for number, layout in enumerate(LAYOUTS):
        must(train(folder / f"whole-{number}", layout))
    for i in range(KILLS):
        number, victim = chance.randrange(len(LAYOUTS)), chance.choice(VICTIMS)
        here, out = folder / f"kill-{i}", folder / f"kill-{i}/run"
        how = disturbed(here / "job", out, LAYOUTS[number], victim, chance)
        at = lines(out)
        take_up(out, LAYOUTS[number])
        print(f"{i}: {LAYOUTS[number]}: {victim} killed {how}, after {at} steps", flush=True)
        if bits(out) != bits(folder / f"whole-{number}"):
            sys.exit(f"soak: FAILED: other bits; all is in {folder}")
        met[how] += 1
        shutil.rmtree(here)
    shutil.rmtree(folder)
    print(f"soak: {KILLS} kills (seed {SEED}), all taken up to the same bits: " +
          ", ".join(f"{n} {how}" for how, n in sorted(met.items())))


if __name__ == "__main__":
    main()
