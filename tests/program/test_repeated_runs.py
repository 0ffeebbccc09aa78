"""The same command gives the same bits, whatever the machine and the settings for debugging do."""
import os

import program_kit
from program_kit import left_by, tiny


class RepeatedRuns(program_kit.Case):
    def test_twice_the_same_is_bitwise_equal(self):
        self.assertEqual(self.train(out=self.folder / "a", steps=4),
                         self.train(out=self.folder / "b", steps=4))

    def test_another_seed_is_another_run(self):
        self.assertNotEqual(self.train(out=self.folder / "a", seed=1),
                            self.train(out=self.folder / "b", seed=2))

    def test_settings_for_debugging_change_no_bit(self):
        plain = self.train(steps=3)
        for name, value in (("HEADRACE_LAUNCH_BLOCKING", "1"), ("HEADRACE_CHECK", "streams"),
                            ("OPENBLAS_NUM_THREADS", "2"), ("OMP_NUM_THREADS", "3")):
            with self.subTest(name=name):
                out = self.folder / name
                self.done(tiny(out=out, steps=3), env={**os.environ, name: value})
                self.assertEqual(left_by(out), plain)

    def test_a_checked_run_changes_no_bit_and_says_so(self):
        plain = self.train(steps=3)
        ended = self.done(tiny(out=self.folder / "checked", steps=3, check=True))
        self.assertIn("checked", ended.out)
        self.assertEqual(left_by(self.folder / "checked"), plain)

    def test_the_number_of_cores_changes_no_bit(self):
        plain = self.train(steps=3, cores=2)
        for cores in (1, 4):
            self.assertEqual(self.train(out=self.folder / f"{cores}", steps=3, cores=cores), plain)

    def test_one_processor_is_enough(self):
        plain = self.train(steps=3)
        one = min(os.sched_getaffinity(0))
        out = self.folder / "one"
        self.done(tiny(out=out, steps=3), preexec_fn=lambda: os.sched_setaffinity(0, {one}))
        self.assertEqual(left_by(out), plain)

    def test_a_sample_depends_on_its_seed_alone(self):
        self.train(steps=2)
        first = self.sampled(self.out, seed=3)
        self.assertEqual(self.sampled(self.out, seed=3), first)
        self.assertNotEqual(self.sampled(self.out, seed=4), first)

    def test_a_sample_without_temperature_depends_on_no_seed(self):
        self.train(steps=2)
        self.assertEqual(self.sampled(self.out, temperature=0, seed=3),
                         self.sampled(self.out, temperature=0, seed=4))

    def test_a_sample_to_a_file_is_the_one_on_standard_output(self):
        self.train(steps=2)
        path = self.folder / "text"
        self.assertEqual(self.sampled(self.out, out=path), "")
        self.assertEqual(path.read_text("utf-8", "replace"), self.sampled(self.out))


if __name__ == "__main__":
    program_kit.main()
