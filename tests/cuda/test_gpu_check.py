"""scripts/gpu-check.sh where there is no GPU: on the test double, and on builds that are made up, whose programs hang,
fail or train to other losses.

    python3 test_gpu_check.py PROGRAM
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "program"), str(ROOT / "bench")]
import gpu_libraries  # noqa: E402
import program_kit  # noqa: E402
from program_kit import PROGRAM, command, run  # noqa: E402

BUILT = pathlib.Path(PROGRAM).resolve().parent
DOUBLE = "CUDA on test double"
ENDS_WITHIN_S = 30  # what was killed
ABOUT = "CUDA 13.0, driver 13.1, compute capability 9.0 at 0000:01:00.0"
TRAINS = """while [ $# -gt 0 ]; do
    case $1 in --out) out=$2 ;; --device) device=$2 ;; esac
    shift
done
mkdir -p "$out"
[ $device = host ] && losses="{host}" || losses="{cuda}"
for loss in $losses; do echo '{{"loss": '$loss', "grad_norm": 1}}'; done >"$out/metrics.jsonl"
"""
FIGURES = """echo '{"name": "overlap.hidden", "value": 0.5, "unit": "share"}'"""


class GpuCheck(program_kit.Case):
    def setUp(self):
        super().setUp()
        self.built = self.folder / "built"
        kept = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_")}
        self.env = {**kept, "HEADRACE_CUDART": "/no/libcudart.so", "HEADRACE_CUBLAS": "/no/libcublas.so",
                    "HEADRACE_NCCL": "/no/libnccl.so"}

    def words(self, *options, built=None):
        return ["scripts/gpu-check.sh", "--built", str(built or self.built), "--out", str(self.out), *options]

    def run_check(self, *options, built=None, **env):
        return run(self.words(*options, built=built), env={**self.env, **env})

    def told(self):
        return json.loads((self.out / "gpu-check.json").read_text(), parse_constant=self.fail)

    def row(self, name):
        return next(row for row in self.told()["rows"] if row["name"] == name)

    def make(self, name, text):
        path = self.write(f"built/{name}", "#!/bin/sh\n" + text)
        path.chmod(0o755)

    def make_up(self, host="5.0 4.0", cuda="5.0 4.0", overlap=FIGURES):
        """A build that believes it is on a GPU."""
        info = json.dumps({"backends": [{"name": "cuda", "on": True, "about": ABOUT}],
                           "engines": [{"name": "nccl", "on": True, "about": "NCCL 2.27"}]})
        self.make("headrace", f"if [ $1 = info ]; then echo '{info}'; exit; fi\n" + TRAINS.format(host=host, cuda=cuda))
        self.make("bench/bench_gpu_overlap", overlap)

    def hanging(self):
        """A program that never ends; self.pid() is its process, and the group of what it starts."""
        return f"echo $$ >{self.folder}/pid.tmp; mv {self.folder}/pid.tmp {self.folder}/pid; sleep 600"

    def pid(self):
        return int((self.folder / "pid").read_text())

    def within(self, seconds, condition):
        until = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)

    def gone(self):
        """No process of the group is left but dead ones that nobody has taken leave of."""
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                state, _, group = path.read_text().rpartition(") ")[2].split()[:3]
            except OSError:  # it has just gone
                continue
            if int(group) == self.pid() and state != "Z":
                return False
        return True

    def interrupt(self, how):
        """A check that is ended in its second part; its status."""
        self.make_up(overlap=self.hanging())
        check = subprocess.Popen(self.words("--parts", "train,overlap"), env=self.env, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.within(program_kit.LONGEST, (self.folder / "pid").exists)
        check.send_signal(how)
        return check.wait()

    # ---- whether there is a GPU
    def test_no_gpu_is_two_and_the_sentence_of_info(self):
        told = json.loads(run(command("info", json=True), env=self.env).out)
        why = next(b["why_off"] for b in told["backends"] if b["name"] == "cuda")
        ended = self.check(self.run_check(built=BUILT), 2)
        self.assertEqual(ended.err, why + "\n")
        self.assertFalse((self.out / "gpu-check.json").exists())

    def test_double_is_refused_unless_it_is_asked_for(self):
        double = str(BUILT / "tests/doubles/libcudart_double.so")
        self.check(self.run_check(built=BUILT, HEADRACE_CUDART=double), 2, DOUBLE, "--on-double allows that")

    def test_double_that_is_none_is_refused(self):
        self.make_up()
        self.check(self.run_check("--on-double"), 2, "--on-double, but this is none", ABOUT)

    def test_libraries_that_the_loader_does_not_know_are_found_by_their_folder(self):
        path = self.write("cuda/lib64/libheadrace_none.so.12", "")
        wanted = {"HEADRACE_NONE": ("libheadrace_none.so.13", path.name)}
        home, env = {"CUDA_HOME": str(self.folder / "cuda")}, {}
        with unittest.mock.patch.dict(os.environ, home), \
                unittest.mock.patch.object(gpu_libraries, "WANTED", wanted):
            self.assertEqual(gpu_libraries.find(env), {"HEADRACE_NONE": str(path)})
        self.assertEqual(env, {"HEADRACE_NONE": str(path)})

    # ---- what comes out
    def test_on_double_every_line_says_so_and_no_time_is_a_figure(self):
        ended = self.check(self.run_check("--on-double", "--parts", "train,overlap,tokens", built=BUILT), 0)
        self.assertEqual([s for s in ended.out.splitlines() if s and not s.startswith(DOUBLE + ": ")], [])
        told = self.told()
        self.assertEqual((told["whole"], told["failed"], told["measured"]), (True, 0, 0))
        self.assertEqual({row["device"] for row in told["rows"]}, {DOUBLE})
        self.assertEqual([row["name"] for row in told["rows"] if row["value"] is not None], ["losses.like_host"])
        self.assertEqual({row["part"] for row in told["rows"]}, {"train", "overlap", "tokens"})

    def test_figures_come_with_what_they_belong_to(self):
        self.make_up()
        self.check(self.run_check("--parts", "overlap"), 0)
        told = self.told()
        self.assertEqual((told["runtime"], told["driver_cuda"], told["compute_capability"]), ("13.0", "13.1", "9.0"))
        self.assertTrue(told["date"] and told["git"] and told["card"] and told["whole"])
        row = self.row("overlap.hidden")
        self.assertEqual((row["value"], row["verdict"], row["device"]), (0.5, "measured", "CUDA"))

    def test_losses_that_differ_too_much_fail(self):
        for cuda, most in (("5.0001 4.0", 2e-5), ("5.0 4.04", 0.01), ("5.0 NaN", None)):
            with self.subTest(cuda=cuda):
                self.make_up(cuda=cuda)
                self.check(self.run_check("--parts", "train"), 1)
                row = self.row("losses.like_host")
                self.assertEqual(row["verdict"], "failed")
                self.assertEqual(most, row["value"] and round(row["value"], 9))

    def test_losses_that_differ_a_little_pass(self):
        self.make_up(cuda="5.00004 4.01")
        self.check(self.run_check("--parts", "train"), 0)

    def test_tests_that_are_not_built_are_skipped_with_the_reason(self):
        self.make_up()
        self.check(self.run_check("--parts", "suites,overlap"), 0)
        self.assertEqual((self.row("suites")["verdict"], self.row("suites")["note"]),
                         ("skipped", "the tests are not built (they want cmocka)"))

    def test_ranks_without_a_gpu_each_are_skipped_with_the_reason(self):
        self.make_up()
        self.check(self.run_check("--parts", "ranks,overlap"), 0)
        self.assertEqual(self.row("ranks")["note"], "1 GPU: each rank wants one of its own")

    # ---- what goes wrong
    def test_part_that_hangs_is_ended_and_named_and_loses_no_other(self):
        self.make_up()
        self.make("bench/bench_node_speed", self.hanging())
        ended = self.check(self.run_check("--limit", "0.3", "--parts", "node,overlap"), 1)
        self.assertIn("bench_node_speed             failed    ended after 0.3 s without a result", ended.out)
        self.assertEqual(self.row("overlap.hidden")["verdict"], "measured")
        self.within(ENDS_WITHIN_S, self.gone)

    def test_part_that_fails_is_one_with_its_last_line(self):
        self.make_up(overlap="echo 'device: lost' >&2; exit 3")
        self.check(self.run_check("--parts", "overlap"), 1)
        self.assertEqual(self.row("bench_gpu_overlap")["note"], "ended with status 3: device: lost")
        self.assertIn("device: lost", (self.out / "gpu-check.log").read_text())

    def test_part_that_says_nonsense_loses_no_other(self):
        self.make_up(overlap="echo nonsense")
        self.check(self.run_check("--parts", "overlap,train"), 1)
        self.assertIn("JSONDecodeError", self.row("overlap")["note"])
        self.assertEqual(self.row("losses.again")["verdict"], "passed")

    def test_file_is_whole_when_the_check_is_killed(self):
        self.interrupt(signal.SIGKILL)
        os.killpg(self.pid(), signal.SIGKILL)
        told = self.told()
        self.assertFalse(told["whole"])
        self.assertEqual(told["passed"], 4)

    def test_check_that_is_told_to_end_ends_what_it_runs(self):
        self.assertEqual(self.interrupt(signal.SIGTERM), 128 + signal.SIGTERM)
        self.within(ENDS_WITHIN_S, self.gone)

    def test_unknown_part_is_wrong_usage(self):
        self.check(self.run_check("--parts", "trains"), 64, "no part 'trains'")


if __name__ == "__main__":
    program_kit.main()
