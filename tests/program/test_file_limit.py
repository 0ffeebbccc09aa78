"""A limit on the size of files stands for a disk that fills up at each of the files in turn."""
import resource

import program_kit
from program_kit import left_by, run, tiny

SMALL = {"width": 4, "heads": 2, "expert_width": 4, "dense_width": 4}


def at_most(kilobytes):
    """For preexec_fn: no file may grow beyond."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes << 10, kilobytes << 10))


class FileLimit(program_kit.Case):
    def test_a_checkpoint_that_is_cut_leaves_the_former_one(self):
        former = self.train(steps=2)
        self.check(run(tiny(out=self.out, steps=4, resume=True), preexec_fn=at_most(40)), 1,
                   self.out / "checkpoint", "File too large")
        self.assertEqual(left_by(self.out), former)
        self.only_whole_files(self.out)

    def test_each_file_in_turn_is_named_and_none_is_left_half_written(self):
        named = set()
        for kilobytes in (0, 4, 16, 40, 64, 80, 96, 128, 256, 1024):
            ended = run(tiny(out=self.out, steps=2, **SMALL), preexec_fn=at_most(kilobytes))
            self.only_whole_files(self.out)
            if ended.status == 0:
                break
            self.check(ended, 1, self.out, "File too large")
            named.add(ended.last.split("'")[1].split("/")[-1])
        else:
            self.fail("no limit was large enough")
        self.assertLessEqual({"metrics.jsonl", "model-00001-of-00002.safetensors", "timeline.svg"}, named)


if __name__ == "__main__":
    program_kit.main()
