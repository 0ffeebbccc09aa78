"""What a profiler of NVIDIA's sees of a training run: ranges of plans, layers and nodes, all of them closed.

    python3 test_nvtx_ranges.py PROGRAM        with HEADRACE_TEST_NVTX, the recorder's path
"""
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "program"))
import program_kit  # noqa: E402
from program_kit import tiny  # noqa: E402


class Ranges(program_kit.Case):
    def record(self, **options):
        """The recorder's first line, and how often there was a range of which name."""
        path = self.folder / "record"
        env = {**os.environ, "NVTX_INJECTION64_PATH": os.environ["HEADRACE_TEST_NVTX"],
               "HEADRACE_NVTX_RECORD": str(path)}
        self.done(tiny(out=self.out, **options), env=env)
        first, *rest = path.read_text().splitlines()
        return first, {name: int(n) for n, name in (line.split(" ", 1) for line in rest)}

    def test_are_balanced_and_named(self):
        first, names = self.record(steps=1)
        found = re.fullmatch(r"headrace: (\d+) pushes, (\d+) pops, at most (\d+) deep, 0 open", first)
        self.assertIsNotNone(found, first)
        self.assertEqual(found[1], found[2])
        self.assertEqual(found[3], "3", names)  # a node of a layer of a plan
        self.assertEqual(int(found[1]), sum(names.values()))
        self.assertIn("plan forward-backward", names)
        self.assertIn("layer_0f-layer_1b", names)
        forward = [name for name in names if "mlp" in name]
        self.assertTrue(forward, names)

    def test_forward_and_backward_of_a_node_are_as_many(self):
        _, names = self.record(steps=1)
        forward = sum(n for name, n in names.items() if name.endswith("forward") and "plan" not in name)
        backward = sum(n for name, n in names.items() if name.endswith("backward") and "plan" not in name)
        self.assertGreater(backward, 0, names)
        self.assertGreaterEqual(forward, backward, names)  # validation has forwards alone

    def test_library_that_is_not_there_does_no_harm(self):
        self.done(tiny(out=self.out, steps=1), env={**os.environ, "NVTX_INJECTION64_PATH": "/no/such.so"})


if __name__ == "__main__":
    program_kit.main()
