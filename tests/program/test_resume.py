"""--resume goes on as if the run had never stopped."""
import json
import shutil

import program_kit
from program_kit import step_folder, take_step


class Resume(program_kit.Case):
    def steps(self, out):
        lines = (out / "metrics.jsonl").read_text().splitlines()
        return [(line["step"], line["loss"]) for line in map(json.loads, lines)]

    def half_of(self, whole, step):
        """A folder that holds what a run had written when it was at `step`."""
        return take_step(whole, step, self.folder / "half")

    def test_gives_the_bits_of_a_run_that_never_stopped(self):
        for overlap in ("on", "off"):
            with self.subTest(overlap=overlap):
                out = self.folder / overlap
                whole = self.train(out=out, steps=6, checkpoint_every=3, keep=2, overlap=overlap)
                half = take_step(out, 3, self.folder / f"half-{overlap}")
                resumed = self.train(out=half, steps=6, resume=True, overlap=overlap)
                self.assertEqual(resumed, whole)
                self.assertEqual(self.steps(half), self.steps(out)[3:])

    def test_with_another_seed_is_refused(self):
        self.train(steps=2, seed=5)
        self.check(program_kit.run(program_kit.tiny(out=self.out, steps=4, seed=6, resume=True)), 1,
                   "--seed 5", "6")

    def test_lists_each_step_once(self):
        self.train(steps=6, checkpoint_every=3, keep=2)
        seen = self.steps(self.out)
        shutil.rmtree(step_folder(self.out, 6))
        self.train(steps=6, resume=True)  # steps 4 to 6 were listed, and are done again
        self.assertEqual(self.steps(self.out), seen)

    def test_lists_each_step_once_after_a_line_that_was_cut(self):
        self.train(steps=6, checkpoint_every=3, keep=2)
        seen = self.steps(self.out)
        shutil.rmtree(step_folder(self.out, 6))
        metrics = self.out / "metrics.jsonl"
        metrics.write_bytes(metrics.read_bytes()[:-20])
        self.train(steps=6, resume=True)
        self.assertEqual(self.steps(self.out), seen)

    def test_works_on_another_number_of_ranks(self):
        self.train(steps=6, checkpoint_every=3, keep=2)
        half = self.half_of(self.out, 3)
        self.train(out=half, steps=6, resume=True, ep=1, microbatches=4)
        one, two = self.steps(half)[-1], self.steps(self.out)[-1]
        self.assertEqual(one[0], two[0])
        self.assertAlmostEqual(one[1], two[1], places=4)

    def test_keeps_as_many_checkpoints_as_were_asked_for(self):
        self.train(steps=6, checkpoint_every=1, keep=3)
        names = sorted(path.name for path in (self.out / "checkpoint").iterdir())
        self.assertEqual(names, ["step-00000004", "step-00000005", "step-00000006"])

    def test_removes_what_a_killed_writer_left(self):
        self.train(steps=2)
        left = self.out / "checkpoint/step-00000004.tmp-1-0"
        left.mkdir()
        (left / "model-00001-of-00002.safetensors").write_bytes(b"half")
        self.train(steps=4, resume=True)
        self.only_whole_files(self.out)


if __name__ == "__main__":
    program_kit.main()
