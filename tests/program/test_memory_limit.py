"""A limit on memory, of each size that has an effect: the run ends at once and says what there was no room
for, and nothing half-written is left. A limit below is one with which no BLAS starts."""
import resource

import program_kit
from program_kit import run, tiny

LIMITS = range(240, 4000, 40)  # MiB of addresses; the first with which it runs ends them
ONE_BLAS_THREAD = "OPENBLAS_NUM_THREADS=1"  # else there is room for as many as there are CPUs, or none
CAUSES = "(no memory|no thread|cannot start its thread|the system gives no more|Cannot allocate)"


def at_most(mebibytes):
    """For preexec_fn."""
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, mebibytes << 20))


class MemoryLimit(program_kit.Case):
    def test_whatever_there_is_no_room_for_is_named(self):
        limits = iter(LIMITS)
        words = ["env", ONE_BLAS_THREAD] + tiny(out=self.out, ep=1, cores=1)
        while (ended := run(words, preexec_fn=at_most(next(limits)))).status != 0:
            self.assertEqual(ended.status, 1, ended.err)
            self.assertRegex(ended.last, CAUSES)
            self.only_whole_files(self.out)


if __name__ == "__main__":
    program_kit.main()
