"""The time that PyTorch's generators of pipeline schedules take, for `make bench`: each makes the orders of all
ranks in Python. Prints one JSON object: by our name of the schedule the milliseconds, the middle of several
rounds, and the order of each rank.

    peer_schedules.py FOLDER RANKS CHUNKS MICROBATCHES

FOLDER is where scripts/install_deps.sh put the Python files of a release; where it has none, the PyTorch that
is installed is taken, if it is one with pipelining (2.5 or later). Generating touches no tensor and no process
group, so with the files alone objects that do nothing stand in for the rest of PyTorch.
"""
import importlib
import importlib.util
import json
import os
import statistics
import sys
import time
import types
from unittest import mock

ROUNDS = 5
PACKAGE = "torch.distributed.pipelining"
KINDS = {"interleaved": "ScheduleInterleaved1F1B", "looped-bfs": "ScheduleLoopedBFS",
         "interleaved-zb": "ScheduleInterleavedZeroBubble", "zbv": "ScheduleZBVZeroBubble"}
STANDING_IN = ("torch", "torch.distributed", "torch.distributed.fsdp", "torch._dynamo", "torch.fx", "torch.nn",
               "torch.nn.modules", "torch.nn.modules.loss", "torch.profiler", PACKAGE + ".microbatch",
               PACKAGE + ".stage")


def from_files(folder):
    sys.modules.update({name: mock.MagicMock(__name__=name) for name in STANDING_IN})
    sys.modules["torch._dynamo"].OptimizedModule = type("OptimizedModule", (), {})
    package = types.ModuleType(PACKAGE)
    package.__path__ = [folder]
    sys.modules[PACKAGE] = package
    return importlib.import_module(PACKAGE + ".schedules")


def schedules(folder):
    if os.path.exists(os.path.join(folder, "schedules.py")):
        return from_files(folder)
    try:
        return importlib.import_module(PACKAGE + ".schedules")
    except ImportError as error:
        raise SystemExit(f"no PyTorch with pipelining: {error}") from error


def make(kind, ranks, chunks, microbatches):
    """A stage is asked for sizes alone."""
    stages = [types.SimpleNamespace(num_stages=ranks * chunks, group_size=ranks, group_rank=0, submod=None)
              for _ in range(chunks)]
    start = time.perf_counter()
    made = kind(stages, microbatches, loss_fn=lambda *_: None)
    return time.perf_counter() - start, made.pipeline_order


def main():
    module = schedules(sys.argv[1])
    ranks, chunks, microbatches = map(int, sys.argv[2:])
    said = {}
    for ours, theirs in KINDS.items():
        sizes = (ranks, 2 if ours == "zbv" else chunks, microbatches)
        rounds = [make(getattr(module, theirs), *sizes) for _ in range(ROUNDS)]
        order = rounds[0][1]
        said[ours] = {"ms": 1e3 * statistics.median(s for s, _ in rounds), "chunks": sizes[1],
                      "ranks": [" ".join(map(str, filter(None, order[rank]))) for rank in range(ranks)]}
    print(json.dumps(said))


main()
