"""Ranks that are processes, one of which fails, is killed or stops: what the others say, and leave."""
import os
import signal

import mpi_kit
import program_kit
from mpi_job import Job, lines
from mpi_kit import mpirun, unless_few
from program_kit import tiny

LONG = {"pp": 2, "ep": 1, "steps": 10**6, "checkpoint_every": 1, "schedule": "1f1b"}


class MpiStops(mpi_kit.Case):
    def start(self, words):
        """Until it has trained for some steps."""
        job = Job(self.folder / "job", words)
        self.addCleanup(job.close)
        job.wait_until(lambda: lines(self.out) > 2)
        return job

    def said(self, job):
        """The program's own lines, once the job has ended and left no process."""
        ended = job.ended()
        self.assertNotEqual(ended.status, 0)
        self.assertEqual(job.left()[0], [], "a rank is left")
        return self.ours(ended)

    def test_where_a_rank_is_killed_the_others_say_where_they_were(self):
        job = self.start(mpirun((2, tiny(out=self.out, **LONG))))
        self.assertEqual(sorted(job.ranks()), [0, 1])
        job.hit(1, signal.SIGKILL)
        said = self.said(job)
        self.assertEqual(len(said), 1, said)
        self.assertIn(f"headrace train: rank 0 (host {os.uname().nodename}", said[0])
        self.assertIn("interrupted by signal 15; rank 0 is in ", said[0])
        self.sampled(self.out)

    @unless_few
    def test_a_rank_that_was_told_to_end_ends_all(self):
        job = self.start(mpirun((2, tiny(out=self.out, **LONG))))
        job.hit(1, signal.SIGTERM)
        said = sorted(self.said(job))
        self.assertEqual(len(said), 2, said)
        self.assertIn("headrace train: failed: rank 1: ", said[0])
        self.assertIn("interrupted", said[0])
        self.assertIn("headrace train: rank 1 (host ", said[1])
        self.sampled(self.out)

    @unless_few
    def test_where_rank_0_has_stopped_another_speaks(self):
        job = self.start(mpirun((2, tiny(out=self.out, **{**LONG, "timeout": 3}))))
        job.hit(0, signal.SIGSTOP)
        said = self.said(job)
        failed = [line for line in said if "failed: " in line]
        self.assertEqual(len(failed), 1, said)
        self.assertIn("headrace train: failed: rank 1: waited 3 s in ", failed[0])
        # It may have been stopped with its part on the way.
        self.assertRegex(failed[0], r"(missing|bytes under way with): 0; rank 0 \(host ")
        self.assertIn("does not answer", failed[0])

    @unless_few
    def test_what_cannot_be_written_ends_all_with_one_sentence(self):
        in_its_way = self.write("run/checkpoint", b"")
        said = self.fails(mpirun((2, tiny(out=self.out, ep=2))), 1,
                          "headrace train: failed: rank 0: ", in_its_way, "(host ")
        self.assertNotIn("rank 1", said)


if __name__ == "__main__":
    program_kit.main()
