"""Ranks that are killed, stopped, starved or cut off while they train under mpirun: all others end with the
cause, no process and no half of a file stays, and the run goes on to the bits that it would have had."""
import os
import pathlib
import resource
import signal

import mpi_kit
from mpi_job import Job, checkpoint, lines, metrics
from mpi_kit import mpirun, unless_few
from program_kit import PROGRAM, tiny
from test_memory_limit import CAUSES, ONE_BLAS_THREAD

RANKS = {"pp": 2, "ep": 2}
ENDLESS = {"steps": 10**6, "checkpoint_every": 20, **RANKS}
WHOLE = {"steps": 200, "checkpoint_every": 20, "warmup": 10, **RANKS}


def draft(out):
    """The parts, by name, of the checkpoint that is being written; None where none is."""
    top = out / "checkpoint"
    steps = sorted(os.listdir(top))
    whole = [name for name in steps if ".tmp" not in name]
    if not steps or steps[-1] in whole or steps[-1][:len("step-00000000")] in whole:
        return None
    try:
        return os.listdir(top / steps[-1])
    except FileNotFoundError:  # it has got its name
        return None


def state(process):
    """As in /proc: T is stopped."""
    return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


class MpiFailures(mpi_kit.Case):
    whole = None

    def start(self, *parts):
        """As mpirun(); `parts` may be words alone, for four ranks."""
        job = Job(self.folder / f"job{len(list(self.folder.glob('job*')))}",
                  mpirun(*(part if isinstance(part, tuple) else (4, part) for part in parts)))
        self.addCleanup(job.close)
        return job

    def under_way(self, job, steps=45, out=None):
        """So many steps have been done, and a checkpoint of one has been written."""
        job.wait_until(lambda: lines(out or self.out) > steps)
        return job

    def over(self, job, out=None):
        """It has ended with an error, and left no process and nothing half-written."""
        ended = job.ended()
        self.assertNotEqual(ended.status, 0, ended.err)
        self.assertEqual(job.left(), ([], []), ended.err)
        self.only_whole_files(out or self.out)
        return ended

    def stop_in_a_draft(self, job, number):
        """Stops a rank that all wait for, as its part of a checkpoint is not there yet."""
        def there():
            parts = draft(self.out)
            return parts is not None and f"model-{number + 1:05}-of-00004.safetensors" not in parts

        rank, stopped = job.rank(number), False
        while not stopped:
            job.wait_until(there)
            os.kill(rank, signal.SIGSTOP)
            job.wait_until(lambda: state(rank) == "T")
            stopped = there()
            if not stopped:
                os.kill(rank, signal.SIGCONT)
        return rank

    def goes_on(self):
        """It comes to the bits of a run that nobody disturbs."""
        if not MpiFailures.whole:
            out = self.folder / "whole"
            self.done(mpirun((4, tiny(out=out, **WHOLE))))
            MpiFailures.whole = metrics(out), checkpoint(out)
        self.done(mpirun((4, tiny(out=self.out, resume=True, **WHOLE))))
        self.assertEqual((metrics(self.out), checkpoint(self.out)), MpiFailures.whole)

    def named(self, ended, *texts):
        """The one line that says why has all of these."""
        said = [line for line in self.ours(ended) if "failed: " in line]
        self.assertEqual(len(said), 1, ended.err)
        for text in texts:
            self.assertRegex(said[0], text)

    def interrupted(self, ended, ranks):
        """Each of the ranks says so once, and where it was."""
        said = [line for line in self.ours(ended) if "interrupted by signal 15" in line]
        self.assertEqual(len(said), len(ranks), ended.err)
        for rank in ranks:
            self.assertTrue(any(f"rank {rank} " in line for line in said), ended.err)

    # ---- killed ------------------------------------------------------------------------------
    def test_the_launcher_names_a_rank_that_was_killed_and_the_run_goes_on_later(self):
        job = self.under_way(self.start(tiny(out=self.out, **WHOLE)))
        job.hit(2, signal.SIGKILL)
        ended = self.over(job)
        self.assertIn("process rank 2 with PID", ended.err)
        self.assertIn("exited on signal 9", ended.err)
        self.interrupted(ended, {0, 1, 3})
        self.goes_on()

    @unless_few
    def test_a_rank_is_killed_before_its_part_of_a_checkpoint_is_written(self):
        job = self.under_way(self.start(tiny(out=self.out, **{**WHOLE, "checkpoint_every": 1})))
        os.kill(self.stop_in_a_draft(job, 2), signal.SIGKILL)
        self.interrupted(self.over(job), {0, 1, 3})
        self.goes_on()

    @unless_few
    def test_rank_0_is_killed_while_it_writes_a_checkpoint(self):
        job = self.under_way(self.start(tiny(out=self.out, **{**WHOLE, "checkpoint_every": 1})))
        os.kill(self.stop_in_a_draft(job, 0), signal.SIGKILL)
        self.assertNotEqual(job.ended().status, 0)
        self.assertEqual(job.left(), ([], []))
        self.goes_on()
        self.only_whole_files(self.out)  # the next run has removed what was left of the former one

    @unless_few
    def test_the_launcher_itself_is_interrupted(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number.name):
                out = self.folder / number.name
                job = self.under_way(self.start(tiny(out=out, **ENDLESS)), out=out)
                job.launcher.send_signal(number)
                self.interrupted(self.over(job, out), {0, 1, 2, 3})
                self.sampled(out)

    @unless_few
    def test_of_a_launcher_that_was_killed_no_rank_is_left(self):
        job = self.under_way(self.start(tiny(out=self.out, **ENDLESS)))
        job.launcher.kill()
        job.ended()
        processes, _ = job.left()  # what the launcher keeps for MPI stays
        self.assertEqual(processes, [])
        self.sampled(self.out)

    # ---- starved -----------------------------------------------------------------------------
    def test_a_rank_that_can_write_no_more_is_named(self):
        job = self.under_way(self.start(tiny(out=self.out, **ENDLESS)))
        resource.prlimit(job.rank(2), resource.RLIMIT_FSIZE, (100, 100))
        self.named(self.over(job), "rank 2", str(self.out), "File too large")
        self.sampled(self.out)

    @unless_few  # with sanitizers no limit on addresses is large enough
    def test_a_rank_without_memory_is_named(self):
        words = tiny(out=self.out, **RANKS)
        for mebibytes in (450, 600):  # with much less it does not get through MPI_Init
            with self.subTest(limit=mebibytes):
                starved = ["env", ONE_BLAS_THREAD, "prlimit", f"--as={mebibytes << 20}"] + words
                self.named(self.over(self.start((1, words), (1, starved), (2, words))), "rank 1: ",
                           CAUSES)

    # ---- not the same ------------------------------------------------------------------------
    def test_a_rank_of_another_version_ends_all(self):
        other = self.folder / "headrace"
        version = self.done([PROGRAM, "--version"]).out.split()[1].encode()
        other.write_bytes(pathlib.Path(PROGRAM).read_bytes().replace(
            b"\0" + version + b"\0", b"\0" + version[:-1] + b"x\0"))
        other.chmod(0o755)
        words = tiny(out=self.out, **{**RANKS, "pp": 1})
        self.fails(mpirun((1, words), (1, [str(other)] + words[1:])), 1, "rank 1",
                   "the version of headrace", version.decode())
        self.assertFalse(self.out.exists())


if __name__ == "__main__":
    mpi_kit.program_kit.main()
