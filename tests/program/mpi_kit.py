"""The program under mpirun. MPIEXEC and what it wants come from the environment (cmake/mpi.cmake)."""
import json
import os
import subprocess
import unittest

import program_kit
from program_kit import PROGRAM, run, tiny

# With sanitizers, where a start takes long, one of each kind is enough.
FEW = "HEADRACE_FEW" in os.environ
unless_few = unittest.skipIf(FEW, "one of its kind is enough here")
MPIEXEC = os.environ.get("HEADRACE_MPIEXEC", "mpiexec")


def engine():
    """What `headrace info` says of MPI: whether it is on, and why not."""
    said = subprocess.run([PROGRAM, "info", "--json"], capture_output=True, check=True).stdout
    mpi = next(e for e in json.loads(said)["engines"] if e["name"] == "mpi")
    return mpi["on"], mpi.get("why_off")


def mpirun(*parts):
    """Of (ranks, words)... one command line."""
    words = [MPIEXEC]
    for i, (ranks, what) in enumerate(parts):
        words += ([":"] if i else []) + ["-n", str(ranks)] + what
    return words


class Case(program_kit.Case):
    @classmethod
    def setUpClass(cls):
        on, why = engine()
        if not on:
            raise unittest.SkipTest(why)

    def ours(self, ended):
        """The lines of the program's own on standard error, without the launcher's."""
        return [line for line in ended.err.splitlines() if line.startswith("headrace")]

    def fails(self, words, status, *named):
        """All ranks end with `status` and one sentence, which names all of `named`."""
        ended = run(words)
        self.assertEqual(ended.status, status, ended.err)
        lines = self.ours(ended)
        self.assertEqual(len(lines), 1, ended.err)
        for text in named:
            self.assertIn(str(text), lines[0])
        return lines[0]

    def two(self, out, first=None, second=None):
        """Two ranks, each with options of its own."""
        return mpirun((1, tiny(out=out, **(first or {}))), (1, tiny(out=out, **(second or {}))))
