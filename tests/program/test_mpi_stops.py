"""Ranks that are processes, one of which fails, is killed or stops: what the others say, and leave."""
import os
import pathlib
import signal
import subprocess
import time

import mpi_kit
import program_kit
from mpi_kit import mpirun, unless_few
from program_kit import LONGEST, left_by, run, tiny

LONG = {"pp": 2, "ep": 1, "steps": 10**6, "checkpoint_every": 1, "schedule": "1f1b"}


def children(pid):
    return [int(word) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children")
            for word in path.read_text().split()]


def rank_of(pid):
    """As its launcher told it; None for a process without."""
    for word in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
        name, _, value = word.partition(b"=")
        if name in (b"OMPI_COMM_WORLD_RANK", b"PMI_RANK"):
            return int(value)
    return None


def ranks_under(pid):
    """By rank: the processes that a launcher has started, itself or through others."""
    found = {}
    for child in children(pid):
        rank = rank_of(child)
        found.update(ranks_under(child) if rank is None else {rank: child})
    return found


class MpiStops(mpi_kit.Case):
    def start(self, words):
        """Until it has trained for some steps; returns the launcher and its ranks."""
        launcher = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.PIPE)
        self.addCleanup(launcher.stderr.close)
        self.addCleanup(launcher.wait)
        self.addCleanup(launcher.kill)
        until = time.monotonic() + LONGEST
        metrics = self.out / "metrics.jsonl"
        while not (metrics.exists() and metrics.read_text().count("\n") > 2):
            self.assertIsNone(launcher.poll(), "it ended too early")
            self.assertLess(time.monotonic(), until, "it does not get there")
            time.sleep(0.01)
        return launcher, ranks_under(launcher.pid)

    def said(self, launcher, ranks):
        """The program's own lines, once the job has ended and left no process."""
        lines = [line.decode() for line in launcher.stderr if line.startswith(b"headrace")]
        self.assertNotEqual(launcher.wait(timeout=LONGEST), 0)
        for pid in ranks.values():
            until = time.monotonic() + LONGEST
            while pathlib.Path(f"/proc/{pid}").exists():
                self.assertLess(time.monotonic(), until, "a rank is left")
                time.sleep(0.01)
        return lines

    def test_where_a_rank_is_killed_the_others_say_where_they_were(self):
        launcher, ranks = self.start(mpirun((2, tiny(out=self.out, **LONG))))
        self.assertEqual(sorted(ranks), [0, 1])
        os.kill(ranks[1], signal.SIGKILL)
        lines = self.said(launcher, ranks)
        self.assertEqual(len(lines), 1, lines)
        self.assertIn(f"headrace train: rank 0 (host {os.uname().nodename}", lines[0])
        self.assertIn("interrupted by signal 15; rank 0 is in ", lines[0])
        self.sampled(self.out)

    @unless_few
    def test_a_rank_that_was_told_to_end_ends_all(self):
        launcher, ranks = self.start(mpirun((2, tiny(out=self.out, **LONG))))
        os.kill(ranks[1], signal.SIGTERM)
        lines = sorted(self.said(launcher, ranks))
        self.assertEqual(len(lines), 2, lines)
        self.assertIn("headrace train: failed: rank 1: ", lines[0])
        self.assertIn("interrupted", lines[0])
        self.assertIn("headrace train: rank 1 (host ", lines[1])
        self.sampled(self.out)

    @unless_few
    def test_where_rank_0_has_stopped_another_speaks(self):
        launcher, ranks = self.start(mpirun((2, tiny(out=self.out, **{**LONG, "timeout": 3}))))
        os.kill(ranks[0], signal.SIGSTOP)
        lines = self.said(launcher, ranks)
        failed = [line for line in lines if "failed: " in line]
        self.assertEqual(len(failed), 1, lines)
        self.assertIn("headrace train: failed: rank 1: waited 3 s in ", failed[0])
        self.assertIn("missing: 0; rank 0 (host ", failed[0])
        self.assertIn("does not answer", failed[0])

    @unless_few
    def test_what_cannot_be_written_ends_all_with_one_sentence(self):
        in_its_way = self.write("run/checkpoint", b"")
        said = self.fails(mpirun((2, tiny(out=self.out, ep=2))), 1,
                          "headrace train: failed: rank 0: ", in_its_way, "(host ")
        self.assertNotIn("rank 1", said)


if __name__ == "__main__":
    program_kit.main()
