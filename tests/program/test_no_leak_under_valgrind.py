"""A short training run under valgrind: no error, and no memory lost."""
import shutil
import unittest

import program_kit
from program_kit import run, tiny

VALGRIND = ["valgrind", "--quiet", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect",
            "--show-leak-kinds=definite,indirect", "--error-exitcode=99", "--fair-sched=yes"]


@unittest.skipUnless(shutil.which("valgrind"), "there is no valgrind here")
class NoLeak(program_kit.Case):
    def test_when_a_run_succeeds(self):
        self.done(VALGRIND + tiny(out=self.out, seq=8))

    def test_when_a_run_fails(self):
        in_the_way = self.out / "timeline.svg"
        in_the_way.mkdir(parents=True)
        self.check(run(VALGRIND + tiny(out=self.out, seq=8, steps=1)), 1, in_the_way)


if __name__ == "__main__":
    program_kit.main()
