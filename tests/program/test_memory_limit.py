"""A limit on memory, of each size that has an effect: the run ends at once and says what there was no room
for, and nothing half-written is left. A limit below is one with which no BLAS starts."""
import resource

import program_kit
from program_kit import run, tiny

LIMITS = range(240, 4000, 40)  # MiB of addresses; the first with which it runs ends them
CAUSES = "(no memory|no thread|cannot start its thread|the system gives no more|Cannot allocate)"


def at_most(mebibytes):
    """For preexec_fn."""
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, mebibytes << 20))


class MemoryLimit(program_kit.Case):
    def test_whatever_there_is_no_room_for_is_named(self):
        limits = iter(LIMITS)
        while (ended := run(tiny(out=self.out, ep=1, cores=1),
                            preexec_fn=at_most(next(limits)))).status != 0:
            self.assertEqual(ended.status, 1, ended.err)
            self.assertRegex(ended.last, CAUSES)
            self.only_whole_files(self.out)


if __name__ == "__main__":
    program_kit.main()
