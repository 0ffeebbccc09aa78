"""--schedule auto measures, searches, and goes on with what it found."""
import json
import re

import program_kit
from program_kit import command, take_step

CHOSEN = 3  # steps


class Auto(program_kit.Case):
    BASE = {"pp": 2, "ep": 1, "schedule": "auto", "microbatches": 4, "steps": 8, "overlap": "off"}

    def auto(self, **options):
        return self.train(**{**self.BASE, **options})

    def metrics(self, out):
        return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]

    def half_of(self, whole, step):
        """A folder with no more than the checkpoint of `step` in it."""
        return take_step(whole, step, self.folder / "half")

    def test_writes_a_schedule_that_plan_finds_sound(self):
        for options in ({"vp": 2, "layers": 4}, {"recompute": True, "delay_wgrad": "off"},
                        {"ep": 2, "overlap": "on"}, {"pp": 4, "layers": 4, "dp": 2, "mtp": "on"}):
            with self.subTest(**options):
                out = self.folder / "-".join(map(str, options.values()))
                self.auto(out=out, **options)
                shown = self.done(command("plan", check=out / "schedule.txt")).out
                stages = options.get("pp", 2) * options.get("vp", 1)
                self.assertIn(f"is sound: {options.get('pp', 2)} ranks, {stages} stages, 4 microbatches", shown)

    @staticmethod
    def in_short(actions):
        """Forwards and backwards with their microbatches; the parts of a backward count once in a row."""
        short = [("F" if kind in "Ff" else "B", int(microbatch)) for kind, microbatch in actions]
        return [action for i, action in enumerate(short) if i == 0 or action != short[i - 1]]

    def test_goes_on_with_what_it_wrote(self):
        self.auto()
        events = json.loads((self.out / "trace.json").read_text())["traceEvents"]
        compute = {(e["pid"], e["tid"]) for e in events
                   if e["name"] == "thread_name" and e["args"]["name"] == "compute"}
        for rank, order in re.findall(r"^rank (\d) (.*)$", (self.out / "schedule.txt").read_text(), re.M):
            ran = sorted((e["ts"], e["args"]["direction"][0], e["args"]["microbatch"]) for e in events
                         if e["ph"] == "X" and e["cat"] == "busy" and (e["pid"], e["tid"]) in compute
                         and e["pid"] == int(rank) and e["args"]["direction"] != "none")
            written = self.in_short(re.findall(r"\d+([FIWB])(\d+)", order))
            self.assertEqual(self.in_short(action[1:] for action in ran), written)

    def test_says_what_it_gained(self):
        ended = self.done(program_kit.tiny(out=self.out, **self.BASE))
        said = re.search(r"a step of 1f1b simulated as ([\d.]+) ms and measured as [\d.]+ ms, "
                         r"of schedule.txt as ([\d.]+) ms and [\d.]+ ms", ended.out)
        self.assertLessEqual(float(said[2]), float(said[1]))
        self.assertIn("step 3: schedule auto simulated as", ended.err)
        chose = [line["step"] for line in self.metrics(self.out) if "chose_schedule" in line]
        self.assertEqual(chose, [CHOSEN])

    def test_resumed_goes_on_with_the_schedule_and_the_bits(self):
        whole = self.auto(checkpoint_every=4, keep=2, eval_every=1)
        half = self.half_of(self.out, 4)
        resumed = self.auto(out=half, resume=True)
        self.assertEqual(resumed, whole)
        self.assertEqual((half / "schedule.txt").read_text(), (self.out / "schedule.txt").read_text())
        self.assertFalse([line for line in self.metrics(half) if "chose_schedule" in line])

    def test_resumed_for_other_sizes_measures_anew(self):
        self.auto(checkpoint_every=4, keep=2)
        half = self.half_of(self.out, 4)
        self.auto(out=half, resume=True, microbatches=2)
        self.assertIn("microbatches 2", (half / "schedule.txt").read_text())
        chose = [line["step"] for line in self.metrics(half) if "chose_schedule" in line]
        self.assertEqual(chose, [4 + CHOSEN])

    def test_of_a_run_too_short_to_choose_says_so(self):
        ended = self.done(program_kit.tiny(out=self.out, **{**self.BASE, "steps": CHOSEN}))
        self.assertIn("it chooses after 3 steps, so all of these were 1f1b", ended.out)
        self.assertFalse((self.out / "schedule.txt").exists())

    def test_of_one_pipeline_rank_is_refused(self):
        self.check(program_kit.run(program_kit.tiny(**{**self.BASE, "pp": 1})), 2, "--pp is 1", "2")


if __name__ == "__main__":
    program_kit.main()
