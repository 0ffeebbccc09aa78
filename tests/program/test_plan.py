"""headrace plan: the ranked table, and what is refused."""
import contextlib
import json
import os
import pty
import re
import subprocess

import program_kit
from program_kit import command, run

NAMES = {"forward-only", "gpipe", "1f1b", "interleaved", "looped-bfs", "combined", "zb-h1", "zb-h2",
         "interleaved-zb", "grouped", "zbv", "v-half", "v-min", "1f1b-v", "dualpipe", "dualpipev",
         "seq-1f1b"}
ROW = re.compile(r"^ +(\d+)  (\S+) +(\d+) +([\d.]+) +[\d.]+ +[\d.]+% +([\d.]+)% +([\d.]+) +(-|[\d.]+ \w+) +"
                 r"(-|[\d.]+ \w+) +([\d.]+)  yes$", re.M)


def plan(**options):
    return command("plan", **options)


class Plan(program_kit.Case):
    def table(self, **options):
        """Rows of the ranked ones by name, and the text of the others by name."""
        out = self.done(plan(**options)).out
        rows = {row[1]: row for row in ROW.findall(out)}
        others = dict(re.findall(r"^ {6}(\S+) +(\S.*)$", out.partition("not ranked")[2]
                                 .partition("\n\n")[0], re.M))
        return rows, others

    def test_every_schedule_stands_in_the_table_once(self):
        rows, others = self.table(pp=4, microbatches=8)
        self.assertEqual(set(rows) | set(others), NAMES)
        self.assertEqual(set(others), {"forward-only"})

    def test_the_table_is_ranked_by_makespan(self):
        rows, _ = self.table(pp=8, microbatches=32, cost_w=0.5, transfer=0.25)
        self.assertEqual([int(row[0]) for row in rows.values()], list(range(1, 17)))
        spans = [float(row[3]) for row in rows.values()]
        self.assertEqual(spans, sorted(spans))

    def test_figures_of_1f1b_are_those_of_its_formula(self):
        rows, _ = self.table(pp=4, microbatches=8, cost_f=2, cost_i=3, cost_w=1,
                             activation_bytes=1 << 20, param_bytes=1 << 30)
        row = rows["1f1b"]
        self.assertEqual(float(row[3]), (8 + 3) * 6)
        self.assertAlmostEqual(float(row[4]), 100 * 3 / 11, places=1)
        self.assertEqual(float(row[5]), 4)
        self.assertEqual(row[6:8], ("4.00 MiB", "1.00 GiB"))
        self.assertEqual(rows["dualpipe"][7], "2.00 GiB")

    def test_chunks_share_the_costs_of_their_rank(self):
        rows, _ = self.table(pp=4, microbatches=8, vp=4)
        self.assertEqual((rows["interleaved"][2], rows["zbv"][2], rows["gpipe"][2]), ("4", "2", "1"))
        self.assertEqual(float(rows["interleaved"][3]), 8 * 3 + 3 * 3 / 4)

    def test_the_span_of_zb_h2_is_shorter_than_its_makespan(self):
        row = self.table(pp=8, microbatches=32)[0]["zb-h2"]
        self.assertLess(float(row[8]), float(row[3]))

    def test_what_cannot_be_made_is_listed_with_the_reason(self):
        _, others = self.table(pp=3, microbatches=7)
        self.assertIn("an even number of ranks", others["dualpipe"])

    def test_a_limit_leaves_those_that_fit_and_says_what_the_others_take(self):
        rows, others = self.table(pp=4, microbatches=8, activation_bytes=1000, param_bytes=100,
                                  memory_limit=4100)
        self.assertIn("1f1b", rows)
        self.assertIn("8000", others["gpipe"])
        self.assertIn("4000", others["gpipe"])

    def test_a_table_of_refusals_alone_ends_with_1(self):
        done = run(plan(pp=4, microbatches=8, activation_bytes=1, param_bytes=100, memory_limit=99))
        self.check(done, 1, "no schedule")
        self.assertRegex(done.out, "1f1b .*parameters alone take 100 bytes")

    def test_sizes_out_of_range_name_the_nearest(self):
        for option, value, nearest in (("pp", 0, 1), ("pp", 5000, 4096), ("microbatches", 0, 1),
                                       ("microbatches", 10**9, 65536), ("vp", -1, 0),
                                       ("cost_f", -1, 0), ("pair_discount", 101, 100),
                                       ("activation_bytes", -1, 0)):
            with self.subTest(option=option, value=value):
                self.check(run(plan(**{option: value})), 2, value, f"is {nearest}")
        self.check(run(plan(pp=4096, microbatches=65536)), 2, "65536", "is 16")
        self.check(run(plan(pp=4096, vp=64)), 2, "--vp 64", "--pp 4096", "is 15")
        self.check(run(plan(activation_bytes=3, stash_bytes=4)), 2, "--stash-bytes 4", "is 3")

    # ---- searched for
    AUTO = re.compile(r"^ {6}auto +(\d+) +([\d.]+) +([\d.]+) +([\d.]+)% .*  yes$", re.M)
    TIGHT = {"pp": 4, "microbatches": 8, "cost_i": 1.2, "cost_w": 0.8, "transfer": 0.1,
             "activation_bytes": 1000, "memory_limit": 2000}
    SHORT = {**TIGHT, "steps": 1000}  # where it does not matter how good it is

    def test_what_is_searched_for_stands_above_the_table_and_is_shorter(self):
        out = self.done(plan(optimise=True, **self.TIGHT)).out
        _, makespan, bound, gap = map(float, self.AUTO.search(out).groups())
        rows = [(row[1], float(row[3])) for row in ROW.findall(out)]
        self.assertLess(out.index(" auto "), out.index(f" {rows[0][0]} "))
        self.assertLess(makespan, rows[0][1])
        self.assertAlmostEqual(gap, 100 * (makespan - bound) / bound, places=1)
        said = re.search(r"^auto, 2 chunks on a V: ([\d.]+)% shorter than the best generator's \((\S+), ([\d.]+)\); "
                         r"([\d.]+)% above its bound; \d+ changes tried$", out, re.M)
        self.assertLessEqual(float(said[3]), rows[0][1])
        self.assertAlmostEqual(float(said[1]), 100 * (1 - makespan / float(said[3])), places=1)
        self.assertEqual(float(said[4]), gap)

    def test_what_is_searched_for_is_never_longer_than_what_the_table_has(self):
        for limit in (1100, 1500, 4000, 10000):
            options = {**self.TIGHT, "pp": 2, "microbatches": 6, "param_bytes": 50,
                       "memory_limit": limit}
            out = self.done(plan(optimise=True, **options)).out
            rows = [float(row[3]) for row in ROW.findall(out) if row[1] != "seq-1f1b"]
            self.assertLessEqual(float(self.AUTO.search(out)[2]), min(rows, default=1e9))

    def test_what_is_searched_for_is_drawn_and_written_as_any_other(self):
        for how in ({"schedule": "auto"}, {"optimise": True}):
            with self.subTest(how=how):
                text, svg = self.folder / "x.txt", self.folder / "x.svg"
                out = self.done(plan(**how, text=text, out=svg, csv=self.folder / "x.csv",
                                     **self.SHORT)).out
                makespan = re.search(r"makespan ([\d.]+), bubble", out)[1]
                self.assertIn(f"makespan {makespan},", self.done(plan(check=text)).out)
                self.assertIn("is sound", self.done(plan(check=self.folder / "x.csv")).out)
                self.assertTrue(svg.read_text().endswith("</svg>\n"))
        self.assertRegex(self.done(plan(schedule="auto", pp=3, steps=1000)).out, r"\n   0 \|F0F1")

    def test_a_seed_and_steps_find_the_same_again(self):
        texts = set()
        for seed in (3, 3, 4):
            path = self.folder / "x.txt"
            self.done(plan(schedule="auto", seed=seed, steps=3000, text=path, **self.TIGHT))
            texts.add(path.read_text())
        self.assertEqual(len(texts), 2)

    def test_steps_and_a_time_limit_bound_the_search(self):
        tried = r"; (\d+) changes tried"
        out = self.done(plan(schedule="auto", steps=40, **self.TIGHT)).out
        self.assertEqual(int(re.search(tried, out)[1]), 40)
        out = self.done(plan(schedule="auto", steps=10**12, time_limit=0.2, **self.TIGHT)).out
        self.assertLess(int(re.search(tried, out)[1]), 10**9)

    def shown_by_search(self, limit):
        """On a terminal, by one that takes so long."""
        reader, terminal = pty.openpty()
        shown = b""
        with subprocess.Popen(plan(optimise=True, time_limit=limit, **{**self.TIGHT, "steps": 10**12}),
                              stdout=subprocess.DEVNULL, stderr=terminal) as running:
            os.close(terminal)
            with contextlib.suppress(OSError):  # nobody has the terminal any more
                while more := os.read(reader, 1 << 16):
                    shown += more
            self.assertEqual(running.wait(program_kit.LONGEST), 0)
        os.close(reader)
        return shown.decode()

    def test_progress_of_a_search_is_for_terminals(self):
        self.assertEqual(self.done(plan(optimise=True, **self.SHORT)).err, "")
        progress = re.compile(r"auto 1/4: 2 chunks on a V, \d+ of \d+ changes, makespan \d+")
        for limit in (0.5, 2, 10):  # on a busy machine a short search may show none
            shown = self.shown_by_search(limit)
            if progress.search(shown):
                break
        self.assertRegex(shown, progress)
        self.assertTrue(shown.endswith("\r\x1b[K"))

    def test_a_limit_that_nothing_fits_into_says_the_smallest_that_works(self):
        tight = {**self.SHORT, "param_bytes": 500}
        for limit in (10, 1499):
            ended = run(plan(schedule="auto", **{**tight, "memory_limit": limit}))
            self.check(ended, 2, f"--memory-limit {limit}", "works is 1500")
        self.done(plan(schedule="auto", **{**tight, "memory_limit": 1500}))

    def test_a_search_goes_by_the_costs_of_a_profile(self):
        out = self.done(plan(optimise=True, profile=self.profile(), pp=2)).out
        rows = [float(row[3]) for row in ROW.findall(out) if row[1] != "seq-1f1b"]
        self.assertLessEqual(float(self.AUTO.search(out)[2]), min(rows))

    def test_options_that_are_not_for_a_search_are_refused(self):
        self.check(run(plan(optimise=True, queue=True)), 2, "--queue")
        self.check(run(plan(optimise=True, check="x.csv")), 2, "--optimise", "--check x.csv")
        self.check(run(plan(optimise=True, schedule="zbv")), 2, "--schedule zbv", "--schedule auto")
        for option in ("steps", "seed", "time_limit"):
            self.check(run(plan(**{option: 1})), 2, option.replace("_", "-"), "--optimise")

    # ---- bound, latency, queues, recomputation
    def column(self, name, **options):
        """Makespan, bound and gap of one schedule."""
        out = self.done(plan(**options)).out
        row = re.search(rf"^ +\d+  {name} +\d+ +([\d.]+) +([\d.]+) +([\d.]+)%", out, re.M)
        return [float(text) for text in row.groups()]

    def test_the_gap_is_what_the_makespan_is_above_its_bound(self):
        makespan, bound, gap = self.column("dualpipe", pp=16, microbatches=128)
        self.assertGreater(makespan, bound)
        self.assertAlmostEqual(gap, 100 * (makespan - bound) / bound, places=1)
        self.assertEqual(self.column("1f1b", pp=4, microbatches=8)[2], 0)

    def test_latency_and_transfer_add_up_and_queues_cost_more(self):
        both = self.column("1f1b", transfer=0.3, latency=0.2)[0]
        self.assertEqual(both, self.column("1f1b", transfer=0.5)[0])
        self.assertLess(self.column("gpipe", transfer=3)[0],
                        self.column("gpipe", transfer=3, queue=True)[0])

    def test_recomputation_costs_a_forward_and_holds_the_boundary(self):
        rows, _ = self.table(pp=4, microbatches=8, activation_bytes=8192, boundary_bytes=1024,
                             recompute="all")
        self.assertEqual(float(rows["1f1b"][3]), (8 + 3) * 4)
        # Three held as boundaries beside the one that is at work.
        self.assertEqual(rows["1f1b"][6], "11.00 KiB")
        some = self.done(plan(schedule="1f1b", recompute="1-2", boundary_bytes=1)).out
        self.assertIn("makespan 4", some)
        self.check(run(plan(schedule="1f1b", recompute="1,4")), 2, "stage 4 of 4", "last is 3")
        for text in ("some", "1-", "3-2", "1,,2", "-1", "1,"):
            with self.subTest(text=text):
                self.check(run(plan(recompute=text)), 2, "--recompute", "0,4-7")

    def test_groups_change_what_interleaved_holds(self):
        few, _ = self.table(pp=4, microbatches=16, group=4)
        many, _ = self.table(pp=4, microbatches=16, group=8)
        self.assertLess(float(few["interleaved"][5]), float(many["interleaved"][5]))
        self.check(run(plan(schedule="interleaved", group=3)), 2, "interleaved", "group")

    # ---- measured costs
    def profile(self, layers=4, **changes):
        def element(name, us):
            return {"name": name, "forward_us": us, "input_grad_us": us, "weight_grad_us": us,
                    "activation_bytes": 1 << 20, "stash_bytes": 1 << 19,
                    "boundary_bytes": 1 << 18, "param_bytes": 1 << 30}
        model = {key: 1 for key in ("width", "heads", "experts", "top_k", "seq",
                                    "micro_batch_size", "ep")}
        whole = {"version": 1, "model": {"layers": layers, "mtp": 0, **model},
                 "transfer_us": 100, "latency_us": 50,
                 "row": [element("embedding", 0), *(element(f"layer {i}", 1000)
                         for i in range(layers)), element("loss", 1000)]}
        whole.update(changes)
        return self.write("profile.json", json.dumps(whole))

    def test_a_profile_gives_each_stage_its_costs(self):
        path = self.profile()
        text = self.folder / "x.txt"
        self.done(plan(profile=path, schedule="1f1b", pp=2, layout="Etttt|L", text=text))
        lines = text.read_text().splitlines()
        for line in ("cost 0 4 4 4", "cost 1 1 1 1", "comm 0.1", "latency 0.05",
                     "bytes 0 5242880 2621440 262144", "bytes 1 1048576 524288 262144"):
            self.assertIn(line, lines)

    def test_a_profile_is_split_evenly_where_no_layout_is_given(self):
        text = self.folder / "x.txt"
        self.done(plan(profile=self.profile(), schedule="1f1b", pp=2, text=text))
        lines = text.read_text().splitlines()
        self.assertTrue({"cost 0 2 2 2", "cost 1 3 3 3"} <= set(lines) or
                        {"cost 0 3 3 3", "cost 1 2 2 2"} <= set(lines), lines)

    def test_the_table_of_a_profile_has_the_parameters_of_the_fullest_rank(self):
        rows, others = self.table(profile=self.profile(), pp=2, layout="Ettt|tL")
        self.assertEqual(rows["1f1b"][7], "4.00 GiB")
        self.assertEqual(rows["dualpipe"][7], "6.00 GiB")
        self.assertIn("interleaved", others)  # the layout has one stage a rank
        rows, others = self.table(profile=self.profile(), pp=4)
        self.assertIn("interleaved", others)  # eight stages of six parts
        self.assertIn("1f1b", rows)

    def test_the_link_of_a_profile_can_be_told_otherwise(self):
        text = self.folder / "x.txt"
        self.done(plan(profile=self.profile(), schedule="1f1b", pp=2, transfer=7, text=text))
        self.assertIn("comm 7\nlatency 0.05\n", text.read_text())

    def test_a_profile_that_is_none_is_refused_by_name(self):
        for changes, named in (({"version": 2}, "version"), ({"row": []}, "'row'"),
                               ({"more": 1}, "'more'"), ({"latency_us": -1}, "latency_us"),
                               ({"transfer_us": "1"}, "transfer_us"), ({"model": 3}, "'model'")):
            with self.subTest(changes=changes):
                path = self.profile(**changes)
                self.check(run(plan(profile=path)), 1, path, named)
        self.check(run(plan(profile=self.write("x.json", "{"))), 1, "x.json", "JSON")
        self.check(run(plan(profile=self.folder / "none.json")), 1, "none.json")

    def test_a_profile_stands_for_the_costs_of_the_command_line(self):
        path = self.profile()
        self.check(run(plan(profile=path, cost_f=2)), 2, "--cost-f", "--profile")
        self.check(run(plan(layout="Et|tL")), 2, "--layout", "--profile FILE")
        self.check(run(plan(profile=path, schedule="1f1b", pp=2, layout="Et|L")), 2, "layers")

    # ---- one schedule
    def test_a_schedule_without_out_is_drawn_in_lanes(self):
        out = self.done(plan(schedule="1f1b", pp=2, microbatches=2)).out
        self.assertIn("   0 |F0F1....B0--..B1--|\n   1 |..F0B0--F1B1--....|\n", out)
        self.assertIn("makespan 9,", self.done(plan(schedule="1f1b", pp=2, microbatches=2)).out)

    def test_lanes_of_a_schedule_with_transfers_wait_for_them(self):
        out = self.done(plan(schedule="gpipe", pp=2, microbatches=1, transfer=1)).out
        self.assertIn("   0 |F0..........B0--|\n   1 |....F0B0--......|\n", out)

    def test_lanes_end_with_the_makespan_for_every_schedule(self):
        for name in NAMES:
            with self.subTest(name=name):
                out = self.done(plan(schedule=name, pp=4, microbatches=8, pair_discount=50)).out
                makespan = float(re.search(r"makespan ([\d.]+)", out)[1])
                lanes = re.findall(r"^ +\d+ \|(.*)\|$", out, re.M)
                lanes = ["".join(lanes[rank::4]) for rank in range(4)]
                step = 3 if name == "seq-1f1b" else 2
                each = 1 if name in ("gpipe", "1f1b", "zb-h1", "zb-h2", "dualpipe") else 0.5
                self.assertEqual({len(lane) for lane in lanes}, {round(makespan / each * step)})
                self.assertTrue(any(lane[-1] != "." for lane in lanes))

    def test_a_long_schedule_goes_on_below(self):
        out = self.done(plan(schedule="1f1b", pp=2, microbatches=100)).out
        self.assertGreater(len(re.findall(r"^ +0 \|", out, re.M)), 1)
        self.assertIn("F99", out)
        out = self.done(plan(schedule="1f1b", pp=2, microbatches=5000)).out
        self.assertNotRegex(out, r"\|.*\d.*\|")

    def test_the_csv_of_every_schedule_is_found_sound(self):
        for name in NAMES - {"dualpipe"}:
            with self.subTest(name=name):
                path = self.folder / f"{name}.csv"
                self.done(plan(schedule=name, pp=4, microbatches=8, csv=path))
                self.assertIn("is sound: 4 ranks", self.done(plan(check=path)).out)

    def test_what_csv_cannot_hold_is_not_written(self):
        path, text = self.folder / "dualpipe.csv", self.folder / "dualpipe.txt"
        self.check(run(plan(schedule="dualpipe", csv=path, text=text)), 1, "bidirectional")
        self.assertIn("is sound", self.done(plan(check=text)).out)
        self.assertFalse(path.exists())

    def test_a_schedule_that_cannot_be_made_names_the_nearest(self):
        self.check(run(plan(schedule="zb-vee")), 2, "zb-vee", "nearest")
        self.check(run(plan(schedule="zbv", vp=3)), 2, "3 chunks", "2 chunks")
        self.check(run(plan(schedule="dualpipe", pp=3)), 2, "3 ranks", "even")
        self.check(run(plan(schedule="gpipe", activation_bytes=10, memory_limit=50)), 2, "80", "50")

    def test_a_schedule_is_drawn_as_svg_and_png(self):
        for name, start in (("x.svg", b"<?xml"), ("x.png", b"\x89PNG")):
            self.done(plan(schedule="zbv", pp=8, microbatches=32, out=self.folder / name))
            self.assertTrue((self.folder / name).read_bytes().startswith(start))
        self.check(run(plan(schedule="zbv", out=self.folder / "no" / "folder" / "x.svg")), 1, "x.svg")
        self.only_whole_files(self.folder)

    def test_the_text_of_every_schedule_is_found_sound_and_as_fast(self):
        for name in NAMES:
            with self.subTest(name=name):
                path = self.folder / f"{name}.txt"
                out = self.done(plan(schedule=name, pp=4, microbatches=8, cost_w=0.5, transfer=0.1,
                                     latency=0.2, pair_discount=10, text=path)).out
                makespan = re.search(r"makespan ([\d.]+)", out)[0]
                self.assertIn(makespan, self.done(plan(check=path)).out)

    def test_work_and_transfers_of_the_critical_path_are_the_makespan(self):
        out = self.done(plan(schedule="zbv", pp=4, microbatches=8, transfer=0.3)).out
        path = re.search(r"critical path: \d+ slots, ([\d.]+) of work and ([\d.]+) of tr", out)
        makespan = float(re.search(r"makespan ([\d.]+)", out)[1])
        self.assertAlmostEqual(float(path[1]) + float(path[2]), makespan, places=6)

    def test_what_training_measures_is_what_a_plan_is_made_of(self):
        path = self.folder / "profile.json"
        train = {"out": self.folder / "run", "profile": path, "layers": 3, "mtp": "on"}
        self.done(program_kit.tiny(**train))
        rows = json.loads(path.read_text())["row"]
        self.assertEqual([row["name"] for row in rows],
                         ["embedding", "layer 0", "layer 1", "layer 2", "mtp 0", "loss"])
        for row in rows[1:-1]:
            for key in ("forward_us", "input_grad_us", "weight_grad_us", "activation_bytes",
                        "stash_bytes"):
                self.assertGreater(row[key], 0, (row["name"], key))
        hidden = 4 * 16 * 16 * json.loads(path.read_text())["model"]["micro_batch_size"]
        self.assertEqual([row["boundary_bytes"] for row in rows[1:]], [hidden] * 5)
        self.assertEqual(rows[-1]["param_bytes"], 256 * 16 * 16)  # the head, and as much thrice
        self.assertIn("1f1b", self.table(profile=path, pp=2, layout="Ett|tmL")[0])
        for wrong in ({"pp": 2}, {"vp": 2}):
            self.check(run(program_kit.tiny(**train, **wrong)), 2, "--profile", "--pp 1")

    def test_a_profile_that_cannot_be_written_is_found_before_the_first_step(self):
        for path in (self.folder / "none" / "p.json", self.folder):
            self.check(run(program_kit.tiny(out=self.out, profile=path)), 1, path)
            self.assertIsNone(program_kit.last_step(self.out))
        self.only_whole_files(self.folder)

    # ---- somebody else's
    def test_somebody_elses_schedule_is_drawn_and_written_anew(self):
        path = self.write("x.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n")
        text, svg = self.folder / "x.txt", self.folder / "x.svg"
        self.done(plan(check=path, text=text, out=svg))
        self.assertTrue(svg.read_text().endswith("</svg>\n"))
        self.assertIn("rank 1 1F0 1B0 1F1 1B1", text.read_text())
        self.assertIn("makespan 9,", self.done(plan(check=text)).out)

    def test_a_schedule_that_is_not_sound_fails_with_the_sentence(self):
        path = self.write("late.csv", "0F0,0B0\n1B0,1F0\n")
        self.check(run(plan(check=path)), 1, path, "rank 1", "1B0")
        path = self.write("lost.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1B1\n")
        self.check(run(plan(check=path)), 1, path, "1F1")

    def test_what_cannot_be_read_fails_with_line_and_field(self):
        self.check(run(plan(check=self.write("x.csv", "0F0,0B0\n1X0\n"))), 1, "x.csv", "line 2",
                   "1X0")
        self.check(run(plan(check=self.write("x.csv", ""))), 1)
        self.check(run(plan(check=self.write("x.txt", "ranks\n"))), 1, "line 1")
        self.check(run(plan(check=self.folder / "none.csv")), 1, "none.csv")
        self.check(run(plan(check=self.folder)), 1, self.folder)

    def test_our_text_form_is_checked_with_its_own_costs(self):
        path = self.write("x.txt", "headrace schedule 1\nranks 1\nstages 1\nmicrobatches 1\n"
                          "placement loop\ncomm 0\npair-discount 0\ncost all 5 1 1\n"
                          "bytes all 0 0 0\nrank 0 0F0 0B0\n")
        self.assertIn("makespan 7,", self.done(plan(check=path)).out)

    def test_a_csv_takes_the_costs_of_the_command_line(self):
        path = self.write("x.csv", "0F0,2F0,2B0,0B0\n1F0,,,1B0\n")  # rank 0 has two stages
        text = self.folder / "x.txt"
        self.done(plan(check=path, cost_f=3, cost_i=6, cost_w=0, transfer=0.5, latency=0.25,
                       pair_discount=10, recompute="1", activation_bytes=300, stash_bytes=30,
                       boundary_bytes=7, text=text))
        text = text.read_text()
        for line in ("cost all 2 4 0", "comm 0.5", "latency 0.25", "pair-discount 10",
                     "bytes all 200 20 7", "recompute 1"):
            self.assertIn(line, text)

    def test_a_csv_takes_the_costs_of_a_profile_along_its_stages(self):
        path = self.write("x.csv", "0F0,2F0,2B0,0B0\n1F0,,,1B0\n")
        text = self.folder / "x.txt"
        out = self.done(plan(check=path, profile=self.profile(), layout="Ett|t|tL", text=text)).out
        for line in ("cost 0 2 2 2", "cost 1 1 1 1", "cost 2 2 2 2", "comm 0.1"):
            self.assertIn(line, text.read_text())
        self.assertIn("makespan 15.6,", out)
        self.check(run(plan(check=path, profile=self.profile(), layout="Etttt|L")), 1, "2", "3")

    def test_what_a_checked_file_says_itself_is_refused_beside_it(self):
        path = self.write("x.csv", "0F0,0B0\n")
        for option in ("pp", "microbatches", "memory_limit"):
            self.check(run(plan(check=path, **{option: 4})), 2, option.replace("_", "-"), "--check")
        self.check(run(plan(check="x.txt", cost_f=2)), 2, "--cost-f", "x.txt", "CSV")
        self.check(run(plan(check="x.txt", profile="p.json")), 2, "--profile", "x.txt")

    def test_options_that_do_not_go_together_are_refused(self):
        self.check(run(plan(schedule="zbv", check="x.csv")), 2, "--schedule", "--check")
        self.check(run(plan(csv="x.csv")), 2, "--csv", "--schedule NAME")
        self.check(run(plan(text="x.txt")), 2, "--text", "--schedule NAME")
        self.check(run(plan(out="x.svg")), 2, "--out", "--schedule NAME")
        self.check(run(plan(schedule="zbv", out="x.gif")), 2, "x.gif", ".png")


if __name__ == "__main__":
    program_kit.main()
