"""`mpirun -n 4 headrace train`: the bits of four threads, one voice, and no rank that was told something
else than the others."""
import collections
import json
import os
import pathlib
import unittest

import mpi_kit
import program_kit
from mpi_kit import mpirun, unless_few
from program_kit import command, left_by, run, tiny

SAME = ("loss", "aux_loss", "mtp_loss", "grad_norm", "lr", "val_loss")
WIDE = {"layers": 4, "steps": 3, "microbatches": 4, "eval_every": 2}
LAYOUTS = [  # ranks, options
    (4, {"pp": 2, "ep": 2, "overlap": "on", "mtp": "on"}),
    (4, {"pp": 4, "vp": 2, "ep": 1, "schedule": "interleaved", "layers": 8}),
    (4, {"pp": 2, "ep": 2, "schedule": "dualpipev", "dispatcher": "symmetric"}),
    (8, {"pp": 2, "ep": 2, "dp": 4, "schedule": "zb-h1", "tie_embeddings": "on",
         "shard_optimizer": "on"}),
]


def metrics(out):
    lines = (pathlib.Path(out) / "metrics.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if key in SAME}
            for line in lines]


def spans(out):
    """By rank: where its first span begins and its last one ends, in microseconds."""
    ends = collections.defaultdict(list)
    for event in json.loads((pathlib.Path(out) / "trace.json").read_text())["traceEvents"]:
        if event["ph"] == "X":
            ends[event["pid"]] += [event["ts"], event["ts"] + event["dur"]]
    return {rank: (min(at), max(at)) for rank, at in ends.items()}


class MpiTrain(mpi_kit.Case):
    def test_processes_come_to_the_bits_of_threads(self):
        for ranks, options in LAYOUTS[-2:-1] if mpi_kit.FEW else LAYOUTS:
            with self.subTest(ranks=ranks, **options):
                threads, processes = self.folder / "threads", self.folder / "processes"
                former = self.train(out=threads, **{**WIDE, **options})
                self.done(mpirun((ranks, tiny(out=processes, **{**WIDE, **options}))))
                self.assertEqual(metrics(threads), metrics(processes))
                self.assertEqual(left_by(processes), former)
                self.assertEqual(sorted(os.listdir(threads)), sorted(os.listdir(processes)))
                self.assertEqual(sorted(spans(processes)), list(range(ranks)))

    def test_one_rank_speaks_of_all(self):
        ended = self.done(mpirun((2, tiny(out=self.out, link_us=20))))
        self.assertEqual(ended.out.count("2 expert ranks as processes over "), 1)
        self.assertIn(" on 1 host", ended.out)
        self.assertNotIn("imitated", ended.out)
        self.assertEqual(ended.err.count("step 2/2"), 1)
        helped = self.done(mpirun((2, command("train", help=True))))
        self.assertEqual(helped.out.count("--micro-batch-size"), 1)
        dry = self.done(mpirun((2, tiny(out=self.folder / "dry", dry_run=True))))
        self.assertEqual(dry.out.count("training "), 1)
        self.assertFalse((self.folder / "dry").exists())

    @unless_few
    def test_one_process_has_its_ranks_as_threads(self):
        ended = self.done(mpirun((1, tiny(out=self.out, pp=2, ep=2))))
        self.assertIn("2 expert ranks as threads", ended.out)

    @unless_few
    def test_a_run_that_was_resumed_has_the_bits_of_threads_too(self):
        options = {"ep": 2, "warmup": 1, "out": self.out}
        self.done(mpirun((2, tiny(steps=1, **options))))
        self.done(mpirun((2, tiny(steps=3, resume=True, **options))))
        options["out"] = self.folder / "threads"
        self.train(steps=1, **options)
        former = self.train(steps=3, resume=True, **options)
        self.assertEqual(metrics(self.out), metrics(options["out"]))
        self.assertEqual(left_by(self.out), former)

    @unless_few
    def test_a_schedule_is_chosen_for_all(self):
        ended = self.done(mpirun((2, tiny(out=self.out, steps=6, pp=2, ep=1, layers=4,
                                          microbatches=6, schedule="auto"))))
        self.assertIn("schedule auto: a step of 1f1b simulated as", ended.out)
        self.assertTrue((self.out / "schedule.txt").exists())

    @unless_few
    def test_other_numbers_of_processes_than_ranks_are_refused(self):
        self.fails(mpirun((3, tiny(out=self.out, pp=2, ep=2))), 2,
                   "--pp 2 x --dp 2 is 4 ranks", "3 processes were started")
        self.assertFalse(self.out.exists())

    @unless_few
    def test_what_is_wrong_with_one_rank_s_options_ends_all(self):
        self.fails(self.two(self.out, {}, {"widht": 3}), 2, "rank 1", "--widht", "--width")
        self.assertFalse(self.out.exists())

    @unless_few
    def test_ranks_that_were_told_differently_end_all(self):
        other = self.write("other", b"some other text, which is long enough to train on. " * 200)
        for told, named in (({"lr": 0.001}, ("--lr is '0.001' here", "'0.003' on rank 0")),
                            ({"data": other}, ("the training text of --data", " bytes, "))):
            with self.subTest(**told):
                said = self.fails(self.two(self.out, {}, told), 1, *named)
                self.assertIn("rank 1: ", said)
                self.assertIn(f"(host {os.uname().nodename}", said)
        self.assertFalse(self.out.exists())

    @unless_few
    def test_the_same_text_may_lie_elsewhere(self):
        copy = self.write("copy", pathlib.Path(program_kit.TEXT).read_bytes())
        self.done(self.two(self.out, {}, {"data": copy, "cores": 1}))

    @unless_few
    def test_schedules_of_one_name_with_other_orders_end_all(self):
        for name, order in (("a", "1f1b"), ("b", "gpipe")):
            self.done(command("plan", pp=2, microbatches=2, schedule=order,
                              text=self.write(f"{name}/order.txt", b"")))
        here = pathlib.Path(program_kit.TEXT).resolve()
        words = tiny(out=self.out, data=here, pp=2, ep=1, schedule="order.txt")
        self.fails(mpirun((1, ["--wdir", str(self.folder / "a")] + words),
                          (1, ["--wdir", str(self.folder / "b")] + words)),
                   1, "what --schedule orders is")

    @unless_few
    @unittest.skipIf(os.geteuid() != 0, "only root may give a rank another clock")
    def test_ranks_with_another_clock_stand_side_by_side_in_the_picture(self):
        words = tiny(out=self.out)
        other = ["unshare", "--time", "--fork", "--monotonic", "1000"]
        if run(other + ["true"]).status != 0:
            self.skipTest("this system has no namespaces of time")
        self.done(mpirun((1, words), (1, other + words)))
        (begin, end), (begin1, end1) = (spans(self.out)[rank] for rank in (0, 1))
        self.assertLess(max(begin, begin1), min(end, end1))


class MpiOfAnotherKind(program_kit.Case):
    """Each of two processes would train for itself, into one folder."""

    def test_a_launcher_that_the_build_does_not_know_is_refused(self):
        on, why = mpi_kit.engine()
        told = {**os.environ, "PMI_SIZE": "2", "PMI_RANK": "0"}
        named = "2 processes were started, but " if on else f"would each train for itself: hr_mpi_run: {why}"
        self.check(run(tiny(out=self.out), env=told), 2, named)
        self.assertFalse(self.out.exists())


if __name__ == "__main__":
    program_kit.main()
