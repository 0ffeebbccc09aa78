"""Training on CUDA devices of the test double, which the environment of the test names.

    python3 test_training_on_double.py PROGRAM
"""
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "program"))
import program_kit  # noqa: E402
from program_kit import run, tiny  # noqa: E402

DOUBLE = "CUDA on test double"


class OnDouble(program_kit.Case):
    def cuda(self, **environment):
        env = {**os.environ, "HEADRACE_CUDA_MEMORY": "managed", **environment}
        return run(tiny(device="cuda", check=True, out=self.out, **self.layout), env=env)

    layout = {"pp": 2, "ep": 2, "microbatches": 4}

    def losses(self):
        lines = (self.out / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line)["loss"] for line in lines if '"loss"' in line]

    def test_losses_are_those_of_the_host_and_nothing_is_left(self):
        ended = self.check(self.cuda(HEADRACE_DOUBLE_REPORT="1"), 0)
        there = self.losses()
        self.assertIn(DOUBLE, ended.err)
        self.assertIn("live: 0 streams, 0 events, 0 pools, 0 blocks", ended.last)
        self.train(**self.layout)
        here = self.losses()
        self.assertEqual(len(here), 2)
        for ours, theirs in zip(here, there, strict=True):
            self.assertAlmostEqual(ours, theirs, delta=1e-4)

    def test_a_call_that_fails_ends_the_run_with_its_name(self):
        self.layout = {}
        for n, code, words in ((2, 35, "older than the CUDA runtime needs"), (10, 2, "cudaErrorMemoryAllocation, 2"),
                               (100, 400, "cudaErrorInvalidResourceHandle, 400"),
                               (500, 700, "cudaErrorIllegalAddress, 700"),
                               (1500, 719, "cudaErrorLaunchFailure, 719")):
            with self.subTest(n=n):
                ended = self.check(self.cuda(HEADRACE_DOUBLE_FAIL=f"{n}:{code}"), 1, words)
                self.assertEqual(ended.last.count("headrace train: failed:"), 1)

    def test_transfers_of_the_host_are_refused_on_memory_of_the_gpu(self):
        self.check(self.cuda(HEADRACE_CUDA_MEMORY="device"), 1,
                   "a kernel of the host, which cannot reach memory of a 'cuda' device")


if __name__ == "__main__":
    program_kit.main()
