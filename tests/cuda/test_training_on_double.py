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

    def check_losses(self, delta):
        ended = self.check(self.cuda(HEADRACE_DOUBLE_REPORT="1"), 0)
        there = self.losses()
        self.assertIn(DOUBLE, ended.err)
        self.assertIn("live: 0 streams, 0 events, 0 pools, 0 blocks", ended.last)
        self.train(**self.layout)
        here = self.losses()
        self.assertEqual(len(here), 2)
        for ours, theirs in zip(here, there, strict=True):
            self.assertAlmostEqual(ours, theirs, delta=delta)

    def test_losses_are_those_of_the_host_and_nothing_is_left(self):
        self.check_losses(1e-4)

    def test_losses_of_bf16_are_those_of_the_host(self):
        """Sums of the two that are near may be rounded to neighbours, 2^-8 apart."""
        self.layout = {"ep": 2, "precision": "bf16", "dispatcher": "symmetric"}
        self.check_losses(1e-3)

    def test_a_call_that_fails_ends_the_run_with_its_name(self):
        self.layout = {}
        for n, code, words in ((2, 35, "older than the CUDA runtime needs"), (10, 2, "cudaErrorMemoryAllocation, 2"),
                               (100, 400, "cudaErrorInvalidResourceHandle, 400"),
                               (500, 700, "cudaErrorIllegalAddress, 700"),
                               (1500, 719, "cudaErrorLaunchFailure, 719")):
            with self.subTest(n=n):
                ended = self.check(self.cuda(HEADRACE_DOUBLE_FAIL=f"{n}:{code}"), 1, words)
                self.assertEqual(ended.last.count("headrace train: failed:"), 1)

    def test_without_nccl_ranks_cannot_exchange_memory_of_gpus(self):
        ended = self.check(self.cuda(HEADRACE_CUDA_MEMORY="device", HEADRACE_NCCL="/no/libnccl.so"), 1, "/no/libnccl.so")
        self.assertIn("groups over NCCL: off, because", ended.last)


class OverNccl(program_kit.Case):
    """On memory of GPUs, which neither the host nor a peer can touch but by NCCL's double."""

    def setUp(self):
        if "HEADRACE_TEST_NCCL" not in os.environ:
            self.skipTest("skipped: this build has no NCCL engine")
        super().setUp()

    def cuda(self, layout, **environment):
        here = {"HEADRACE_NCCL": os.environ["HEADRACE_TEST_NCCL"], "HEADRACE_DOUBLE_DEVICES": "4",
                "HEADRACE_DOUBLE_HIDDEN": "1", "HEADRACE_DOUBLE_ONE_THREAD": "1", "HEADRACE_DOUBLE_REPORT": "1"}
        return run(tiny(device="cuda", check=True, out=self.out, **layout),
                   env={**os.environ, **here, **environment})

    def losses(self):
        lines = (self.out / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line)["loss"] for line in lines if '"loss"' in line]

    def test_losses_are_those_of_the_host_and_nothing_is_left(self):
        for layout in ({"pp": 2, "ep": 1}, {"dp": 2, "ep": 1, "shard_optimizer": "on"}, {"ep": 2},
                       {"pp": 2, "ep": 2, "microbatches": 4}):
            with self.subTest(**layout):
                ended = self.check(self.cuda(layout), 0)
                there = self.losses()
                self.assertIn("transfers between GPUs: NCCL on test double", ended.out)
                self.assertIn("NCCL on test double: live: 0 communicators, 0 windows, 0 blocks", ended.err)
                self.assertIn("live: 0 streams, 0 events, 0 pools, 0 blocks", ended.err)
                self.train(**layout)
                here = self.losses()
                self.assertEqual(len(here), 2)
                for ours, theirs in zip(here, there, strict=True):
                    self.assertAlmostEqual(ours, theirs, delta=1e-4)

    def test_a_call_that_fails_ends_the_run_of_all_ranks(self):
        """Late ones take the context with them: which call is the n-th is not the same in every run, and one that reads a
        span's time may fail."""
        for n, code in ((400, 2), (1500, 700), (4000, 719)):
            with self.subTest(n=n):
                ended = self.cuda({"ep": 2}, HEADRACE_DOUBLE_FAIL=f"{n}:{code}")
                self.assertEqual(ended.status, 1)
                self.assertIn(f"{code}", ended.err)
                self.assertEqual(ended.err.count("headrace train: failed:"), 1)

    def test_more_ranks_than_gpus_are_told_what_to_do(self):
        ended = self.cuda({"ep": 2}, HEADRACE_DOUBLE_DEVICES="1")
        self.assertEqual(ended.status, 1)
        self.assertIn("start no more ranks than GPUs, and let the process see all of them", ended.err)


if __name__ == "__main__":
    program_kit.main()
