"""A stage of a pipeline over four processes that fails, or stops, in the forward of a microbatch: what the
ranks say of it, which is the same on all. PROGRAM is tests/mpi/pipeline_ranks.c."""
import program_kit
from mpi_job import Job
from mpi_kit import mpirun, unless_few
from program_kit import PROGRAM


class MpiCallbacks(program_kit.Case):
    def said(self, mode):
        """By the ranks at their end, which comes to all processes."""
        job = Job(self.folder / mode, mpirun((4, [PROGRAM, mode])))
        self.addCleanup(job.close)
        ended = job.ended()
        self.assertNotEqual(ended.status, 0)
        self.assertEqual(job.left(), ([], []), ended.err)
        return [line for line in ended.out.splitlines() if line.startswith("ended: ")]

    def test_all_ranks_name_the_stage_that_failed(self):
        at = r"\(host \S+\)"
        for mode, cause in (("callback", "ERR_STATE: rank 2: .*stage 6.*microbatch 1.*the callback gives up"),
                            ("kernel", "ERR_STATE: rank 2: .*'grief'.*the kernel gives up"),
                            ("memory", "ERR_NOMEM: rank 2: .*stage 6.*microbatch 1.*16777216 bytes")):
            with self.subTest(mode=mode):
                lines = self.said(mode)
                self.assertEqual(len(lines), 4, lines)
                self.assertEqual(len(set(lines)), 1, lines)
                self.assertRegex(lines[0], f"^ended: {cause}.* {at}$")

    @unless_few
    def test_where_a_rank_stops_what_was_waited_for_is_named_and_who_stopped(self):
        lines = self.said("stop")  # of those that come to say it before the launcher ends all
        self.assertGreater(len(lines), 0)
        self.assertRegex(lines[0], r"^ended: ERR_TIMEOUT: rank [013]: waited 1 s in send_recv \d+ of the group of "
                                   r"ranks \d,\d \[.*, stage \d, chunk \d, microbatch \d\]; "
                                   r"missing: .*\d \(256 bytes\)")
        self.assertRegex(lines[0], r"; rank 2 \(host \S+\) does not answer: it has stopped")


if __name__ == "__main__":
    program_kit.main()
