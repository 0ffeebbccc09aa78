"""The real CUDA runtime on a machine without a driver: the program says in one sentence why CUDA is off.

    python3 test_without_driver.py PROGRAM        with HEADRACE_TEST_CUDART, HEADRACE_TEST_CUDA_STUBS
"""
import ctypes
import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "program"))
import program_kit  # noqa: E402
from program_kit import command, run, tiny  # noqa: E402

CUDART = os.environ.get("HEADRACE_TEST_CUDART", "")
STUBS = pathlib.Path(os.environ.get("HEADRACE_TEST_CUDA_STUBS", ""))


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_")}
    return {**kept, "HEADRACE_CUDART": CUDART, **more}


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def setUpModule():
    if not CUDART:
        raise unittest.SkipTest("skipped: the toolkit has no CUDA runtime library")
    if has_driver():
        raise unittest.SkipTest("skipped: this machine has a driver")


class WithoutDriver(program_kit.Case):
    def cuda(self, env):
        """What info says of CUDA."""
        told = json.loads(self.done(command("info", json=True), env=env).out)
        return next(b for b in told["backends"] if b["name"] == "cuda")

    def test_info_says_that_there_is_no_driver(self):
        cuda = self.cuda(environment())
        self.assertFalse(cuda["on"])
        self.assertIn("no NVIDIA driver", cuda["why_off"])

    def test_info_knows_the_stub_of_the_toolkit(self):
        stub = STUBS / "libcuda.so"
        if not stub.exists():
            self.skipTest("skipped: the toolkit has no stub of libcuda")
        (self.folder / "libcuda.so.1").symlink_to(stub)
        paths = [str(self.folder), os.environ.get("LD_LIBRARY_PATH", "")]
        cuda = self.cuda(environment(LD_LIBRARY_PATH=":".join(p for p in paths if p)))
        self.assertFalse(cuda["on"])
        self.assertIn("stub", cuda["why_off"])

    def test_runtime_has_every_function_that_is_called(self):
        self.assertNotIn("has no function", self.cuda(environment())["why_off"])

    def test_runtime_that_is_not_there_is_named(self):
        cuda = self.cuda(environment(HEADRACE_CUDART="/no/libcudart.so"))
        self.assertIn("/no/libcudart.so", cuda["why_off"])

    def test_training_on_it_is_refused_with_the_reason(self):
        self.check(run(tiny(device="cuda", out=self.out), env=environment()), 1,
                   "device 'cuda': off, because no NVIDIA driver")


if __name__ == "__main__":
    program_kit.main()
