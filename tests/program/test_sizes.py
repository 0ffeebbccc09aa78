"""Options out of range, alone and together: exit 2, and the last line names option and value."""
import re

import program_kit
from program_kit import command, run, tiny

# Least value of each option that is a whole number.
LEAST = {
    "steps": 1, "seed": 0, "layers": 1, "width": 2, "heads": 1, "experts": 1, "top-k": 1,
    "expert-width": 1, "dense-layers": 0, "dense-width": 1, "shared-width": 0, "seq": 1, "ep": 1,
    "pp": 1, "vp": 0, "dp": 0, "microbatches": 1, "micro-batch-size": 1, "cores": 0, "warmup": 0,
    "eval-every": 0, "eval-batches": 1, "checkpoint-every": 0, "keep": 1,
}
ONE_STEP = "global-batch-size"  # its least value depends on others


class Sizes(program_kit.Case):
    def refused(self, option, value, *named):
        self.check(run(tiny(out=self.out, **{option.replace("-", "_"): value})), 2,
                   f"--{option}", value, *named)
        self.assertFalse(self.out.exists(), "refused, and yet something was written")

    def test_every_whole_number_of_the_help_is_known_here(self):
        listed = set(re.findall(r"^  --(\S+) N ", self.done([program_kit.PROGRAM, "train",
                                                            "--help"]).out, re.M))
        self.assertEqual(listed, {*LEAST, ONE_STEP})

    def test_below_the_least_value_names_the_nearest_valid_one(self):
        for option, least in LEAST.items():
            for value in {-1, -(10**9), least - 1}:
                with self.subTest(option=option, value=value):
                    self.refused(option, value, f"is {least}")

    def test_what_schedules_and_layouts_cannot_do_is_refused_like_an_option(self):
        for options, *named in (({"pp": 4}, "--layers 2", "4"),
                                ({"pp": 2, "schedule": "zb"}, "--schedule", "'zb'", "zb-h1"),
                                ({"pp": 2, "schedule": "seq-1f1b"}, "planning only"),
                                ({"pp": 2, "layout": "Et|t"}, "--layout Et|t"),
                                ({"pp": 2, "layout": "Et|tmL"}, "--layout Et|tmL", "the model 0"),
                                ({"pp": 2, "layout": "EttL|"}, "the last stage is empty"),
                                ({"pp": 2, "layout": "|EttL"}, "the first stage is empty"),
                                ({"pp": 2, "schedule": "missing.csv"}, "missing.csv"),
                                ({"ep": 1, "microbatches": 1, "overlap": "on"}, "--overlap on")):
            with self.subTest(options=options):
                self.check(run(tiny(out=self.out, **options)), 2, *named)
                self.assertFalse(self.out.exists(), "refused, and yet something was written")

    def test_what_is_no_whole_number_is_refused(self):
        for value in ("three", "1.5", "1e3", "0x10", "", " ", "nan", "inf", "9" * 40, "1 2"):
            for option in ("steps", "width", "ep", "global-batch-size"):
                with self.subTest(option=option, value=value):
                    self.refused(option, value)
        self.refused("seed", 10**17, f"is {2**53}")  # which would be taken
        self.refused("seed", "1e3", f"0 to {2**53}")

    def test_what_is_no_number_in_range_is_refused(self):
        for option, value in (("lr", "nan"), ("lr", "-1"), ("lr", "inf"), ("clip", "-0.1"),
                              ("link-gbps", "-1"), ("link-us", "soon"), ("timeout", "0"),
                              ("time-limit", "-1"), ("aux-coef", "-1"), ("weight-decay", "1e9")):
            with self.subTest(option=option, value=value):
                self.refused(option, value)

    def test_a_step_of_no_sequences_is_refused(self):
        self.refused(ONE_STEP, 0, "nearest valid value is 4")
        self.refused(ONE_STEP, -1)

    def test_experts_that_ranks_cannot_share_are_refused(self):
        self.check(run(tiny(out=self.out, experts=9, ep=2)), 2, "--experts 9", "--ep 2", "8")
        self.check(run(tiny(out=self.out, experts=4, ep=3)), 2, "--experts 4", "--ep 3", "3")

    def test_more_experts_for_a_token_than_there_are_is_refused(self):
        self.check(run(tiny(out=self.out, top_k=5)), 2, "--top-k 5", "--experts 4", "is 4")

    def test_heads_that_do_not_divide_the_width_are_refused(self):
        self.check(run(tiny(out=self.out, width=18, heads=4)), 2, "--width 18", "--heads 4", "16")

    def test_sizes_of_a_sample_are_refused(self):
        for option, value, nearest in (("length", 0, 1), ("length", -1, 1), ("top-k", 257, 256),
                                       ("temperature", -1, 0), ("seed", -1, 0)):
            with self.subTest(option=option, value=value):
                self.check(run(command("sample", **{option.replace("-", "_"): value})), 2,
                           f"--{option}", value, nearest)

    def test_a_model_larger_than_memory_fails_and_says_how_many_bytes(self):
        self.check(run(tiny(out=self.out, width=65536, expert_width=262144, layers=64,
                            dense_width=262144)), 1, "bytes")

    def test_a_name_that_is_almost_right_is_answered_with_the_right_one(self):
        for words, nearest in ((["trian"], "'train'"), (["smaple"], "'sample'"),
                               (["train", "--microbatch", "2"], "--microbatches"),
                               (["train", "--micro_batch_size=2"], "--micro-batch-size"),
                               (["train", "--overlap", "onn"], "'on'"),
                               (["train", "--loss-scale-mode", "mean"], "mean_"),
                               (["train", "steps"], "--steps"), (["info", "--jason"], "--json")):
            with self.subTest(words=words):
                self.check(run([program_kit.PROGRAM, *words]), 2, nearest)


if __name__ == "__main__":
    program_kit.main()
