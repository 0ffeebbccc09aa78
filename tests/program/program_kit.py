"""Runs the program and looks at what it left. Used by the test_*.py beside it:

    python3 test_x.py PROGRAM

A file whose tests were all skipped ends with 77, its last line the reason.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "build/release/headrace"
TEXT = "LICENSE"  # of the repository, which is the working folder
# A run of some ten milliseconds.
TINY = {
    "data": TEXT, "steps": 2, "layers": 2, "width": 16, "heads": 2, "experts": 4,
    "expert-width": 16, "dense-width": 16, "seq": 16, "microbatches": 2, "eval-batches": 1,
    "link-gbps": 0, "link-us": 0, "timeout": 120,
}
INDEX = "model.safetensors.index.json"
LONGEST = 200  # seconds; a run that takes more hangs


class Ended:
    """How a run ended: status, standard output and error, the last line of the latter."""

    def __init__(self, status, out, err):
        self.status = status
        self.out = out.decode("utf-8", "replace")
        self.err = err.decode("utf-8", "replace")
        self.last = (self.err.strip().splitlines() or [""])[-1]


def command(name, **options):
    """Options by keyword: _ for -, True for one without a value, None to leave it out."""
    words = [PROGRAM, name]
    for key, value in options.items():
        if value is None:
            continue
        words.append("--" + key.replace("_", "-"))
        if value is not True:
            words.append(str(value))
    return words


def tiny(**options):
    """The command of a tiny training run."""
    base = {key.replace("-", "_"): value for key, value in TINY.items()}
    return command("train", **{**base, **options})


def step_folder(out, step):
    """Where a run has the checkpoint of `step`."""
    return pathlib.Path(out) / "checkpoint" / f"step-{step:08}"


def last_step(out):
    """The folder of the last checkpoint that a run has left; None: there is none."""
    steps = [path for path in pathlib.Path(out, "checkpoint").glob("step-*") if ".tmp" not in path.name]
    return max(steps, default=None)


def left_by(out):
    """The bytes of the last checkpoint: of all its files, with their names."""
    folder = last_step(out)
    return b"".join(path.name.encode() + b"\0" + path.read_bytes() for path in sorted(folder.iterdir()))


def take_step(out, step, into):
    """A folder as if a run had just written its checkpoint of `step`."""
    shutil.copytree(step_folder(out, step), step_folder(into, step))
    return into


def run(words, **popen):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=LONGEST,
                          check=False, **popen)
    return Ended(done.returncode, done.stdout, done.stderr)


class Case(unittest.TestCase):
    """Has a folder of its own, and the phrases in which the tests are written."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="headrace-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.out = self.folder / "run"

    def write(self, name, contents):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
        return path

    def check(self, ended, status, *named):
        """It ended with `status`, and its last line names all of `named`."""
        self.assertEqual(ended.status, status, ended.err)
        for text in named:
            self.assertIn(str(text), ended.last)
        return ended

    def done(self, words, **popen):
        return self.check(run(words, **popen), 0)

    def train(self, **options):
        """A tiny run that must succeed; returns the bytes of its checkpoint."""
        out = options.setdefault("out", self.out)
        self.done(tiny(**options))
        return left_by(out)

    def sampled(self, path, **options):
        """The text that `sample` makes of a checkpoint, which it must be able to read."""
        return self.done(command("sample", checkpoint=path, **{"length": 20, **options})).out

    def only_whole_files(self, folder):
        """Nothing half written lies about."""
        left = [path for path in pathlib.Path(folder).rglob("*") if ".tmp" in path.name]
        self.assertEqual(left, [])


class Verdicts(unittest.TextTestResult):
    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed = getattr(self, "passed", 0) + 1


def main():
    tests = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=Verdicts).run(tests)
    if not result.wasSuccessful():
        sys.exit(1)
    if getattr(result, "passed", 0) == 0:
        reasons = [reason for _, reason in result.skipped]
        print(reasons[-1] if reasons else "no tests")
        sys.exit(77 if reasons else 1)
