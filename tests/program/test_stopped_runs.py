"""Ctrl-C, SIGTERM and worse, in the middle of a step and at any moment: the process ends at once and
the last checkpoint is whole."""
import os
import pathlib
import signal
import subprocess
import time

import program_kit
from program_kit import LONGEST, command, last_step, left_by, tiny

SOON = 5  # seconds; a second is promised, to a machine that has nothing else to do
ATTEMPTS = 3  # of which one must end soon: machines stand still at times
NEVER_ENDS = {"steps": 10**6, "link_us": 10**7}  # a step of minutes
LARGE = {"layers": 8, "width": 512, "heads": 8, "seq": 512, "expert_width": 2048,
         "dense_width": 2048, "micro_batch_size": 4, "microbatches": 8, "steps": 10**6}


def threads(process):
    names = pathlib.Path(f"/proc/{process.pid}/task").glob("*/comm")
    return [name.read_text().strip() for name in names]


class StoppedRuns(program_kit.Case):
    def start(self, words):
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def wait_until(self, process, reached):
        until = time.monotonic() + LONGEST
        while not reached():
            self.assertIsNone(process.poll(), "it ended too early")
            self.assertLess(time.monotonic(), until, "it does not get there")
            time.sleep(0.005)

    def in_mid_step(self, process):
        """The streams of the last rank exist: the first step, which takes minutes, is under way."""
        self.wait_until(process, lambda: "hr1.counts" in threads(process))
        time.sleep(0.2)  # only makes it likelier to be deep in the step; no order hangs on it

    def stops(self, process, number):
        """It says why it ended; returns how many seconds that took."""
        begin = time.monotonic()
        process.send_signal(number)
        process.wait(timeout=LONGEST)
        seconds = time.monotonic() - begin
        self.assertEqual(process.returncode, 130)
        last = process.stderr.read().decode().splitlines()[-1]
        self.assertIn(f"interrupted by signal {int(number)}", last)
        return seconds

    def stops_soon(self, words, number, begun):
        seconds = []
        while not seconds or min(seconds) > SOON:
            self.assertLess(len(seconds), ATTEMPTS, seconds)
            process = self.start(words)
            begun(process)
            seconds.append(self.stops(process, number))

    def test_in_mid_step_the_run_ends_and_leaves_the_last_checkpoint(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number.name):
                former = self.train(steps=2)
                self.stops_soon(tiny(out=self.out, resume=True, **NEVER_ENDS), number,
                                self.in_mid_step)
                self.assertEqual(left_by(self.out), former)
                self.sampled(self.out)

    def test_in_a_step_of_heavy_arithmetic_the_run_ends(self):
        self.stops_soon(tiny(out=self.out, **LARGE), signal.SIGINT, self.in_mid_step)

    def test_at_any_moment_there_is_a_whole_checkpoint(self):
        for number in (signal.SIGINT, signal.SIGKILL):
            for steps in (1, 2, 5, 9):
                with self.subTest(signal=number.name, steps=steps):
                    out = self.folder / f"{number.name}-{steps}"
                    process = self.start(tiny(out=out, steps=10**6, checkpoint_every=1))
                    metrics = out / "metrics.jsonl"
                    self.wait_until(process, lambda: last_step(out) and
                                    metrics.read_text().count("\n") >= steps)
                    process.send_signal(number)
                    process.wait(timeout=LONGEST)
                    self.assertEqual(process.returncode,
                                     130 if number == signal.SIGINT else -signal.SIGKILL)
                    self.sampled(out)
                    if number == signal.SIGINT:
                        self.only_whole_files(out)

    def test_a_second_signal_ends_at_once(self):
        process = self.start(tiny(out=self.out, **NEVER_ENDS))
        self.in_mid_step(process)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=LONGEST)
        self.assertEqual(process.returncode, 130)

    def test_a_sample_can_be_stopped(self):
        self.train(steps=1)
        self.stops_soon(command("sample", checkpoint=self.out, length=10**6), signal.SIGINT,
                        lambda process: self.wait_until(
                            process, lambda: "hr0.compute" in threads(process)))

    def test_a_time_limit_ends_with_everything_written(self):
        self.done(tiny(out=self.out, steps=10**6, time_limit=0.2))
        self.assertEqual(sorted(os.listdir(self.out)),
                         ["checkpoint", "loss.svg", "metrics.jsonl", "sample.txt", "timeline.png",
                          "timeline.svg", "trace.json"])
        self.sampled(self.out)


if __name__ == "__main__":
    program_kit.main()
