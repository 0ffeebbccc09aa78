"""What the parts of gpu_check.py share: commands under a time limit, a row a result, one log of all that was
printed, and a JSON file that is whole whenever one looks.
"""
import contextlib
import json
import math
import os
import signal
import subprocess
import tempfile
import time

ON_DOUBLE = "CUDA on test double"
ENOUGH = 20  # lines of a failed command that are shown; the log has all
LAST_WAIT_S = 5  # for a process that was killed; one that the driver holds may never end


class Ended:
    """How a command ended. `why` is None where it succeeded; `hung` where it ran until its time was over."""

    def __init__(self, out, why=None, hung=False, status=None):
        self.out, self.why, self.hung, self.status = out, why, hung, status


def last_line(text):
    return (text.strip().splitlines() or ["no word"])[-1].strip()


def kill(process):
    """With all that it started. What cannot be killed is left behind."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(LAST_WAIT_S)
    except ProcessLookupError:
        pass  # it ended meanwhile
    except subprocess.TimeoutExpired:
        return ", and cannot be killed"
    return ""


@contextlib.contextmanager
def signals_noted():
    """Those that came meanwhile, instead of what they do: a process that is being started has nobody yet who
    would end it. (Blocked ones would be blocked in the process, too.)"""
    came = []
    usual = {s: signal.signal(s, lambda number, _: came.append(number)) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield came
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


def replace(path, text):
    """The whole text, or what was there before."""
    with open(path + ".tmp", "w") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".tmp", path)


class Check:
    """One run of the check: where things are, what it is allowed, what has come out."""

    def __init__(self, built, root, out, double, end):
        self.built, self.root, self.out, self.double = built, root, out, double
        self.end = end  # of the whole, by time.monotonic()
        self.label = ON_DOUBLE if double else "CUDA"
        self.rows, self.facts = [], {}
        self.part, self.part_end = "start", end
        self.env = dict(os.environ)
        libraries = os.path.join(built, "lib")
        if os.path.isdir(libraries):  # what --pack put there
            before = [p for p in [os.environ.get("LD_LIBRARY_PATH")] if p]
            self.env["LD_LIBRARY_PATH"] = ":".join([libraries] + before)
        os.makedirs(out, exist_ok=True)
        self.log = open(os.path.join(out, "gpu-check.log"), "w")

    def say(self, text):
        print(f"{self.label}: {text}", flush=True)
        self.log.write(f"{self.label}: {text}\n")
        self.log.flush()

    def begin(self, part, limit):
        self.part, self.part_end = part, min(time.monotonic() + limit, self.end)

    def program(self, *path):
        return os.path.join(self.built, *path)

    def run(self, words, limit=None, env=None, aloud=True):
        """Runs a command for as long as it, its part and the whole may take."""
        left = self.part_end - time.monotonic()
        limit = left if limit is None else min(limit, left)
        if aloud:
            self.say(f"{self.part:<9} $ {' '.join(words)}")
        if limit <= 0:
            return Ended("", "was not started: the time of its part was over")
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                with signals_noted() as came:
                    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                               env={**self.env, **(env or {})}, cwd=self.root, start_new_session=True)
            except OSError as e:
                return Ended("", f"cannot be run: {e.strerror}")
            why, hung = None, False
            try:
                for number in came:
                    signal.raise_signal(number)
                process.wait(limit)
            except subprocess.TimeoutExpired:
                why, hung = f"ended after {limit:.3g} s without a result{kill(process)}", True
            except BaseException:  # the check itself is told to end
                kill(process)
                raise
            return self.ended(process.returncode, why, hung, out, err)

    def ended(self, status, why, hung, out, err):
        texts = []
        for f in (out, err):
            f.seek(0)
            texts.append(f.read().decode("utf-8", "replace"))
        self.log.write("".join(texts))
        if why is None and status < 0:
            why = f"was ended by signal {-status}: {last_line(texts[1])}"
        elif why is None and status > 0:
            why = f"ended with status {status}: {last_line(texts[1] or texts[0])}"
        if why:
            self.log.write(f"-- {why}\n")
            print("\n".join("    " + line for line in "".join(texts).splitlines()[-ENOUGH:]), flush=True)
        self.log.flush()
        return Ended(texts[0], why, hung, status)

    def row(self, name, verdict, note="", value=None, unit=None, versus=None, versus_value=None):
        """A result. On the double a time or a rate is none: it is left out. JSON has no word for NaN."""
        if value is not None and not math.isfinite(value):
            value, note = None, f"{value}; {note}"
        if self.double and verdict == "measured":
            verdict, value, versus_value, note = "passed", None, None, "it runs; no figure on a test double"
        ratio = value / versus_value if value and versus_value else None
        made = {"device": self.label, "part": self.part, "name": name, "verdict": verdict, "value": value,
                "unit": unit, "versus": versus, "versus_value": versus_value, "ratio": ratio, "note": note}
        self.rows.append(made)
        self.say(line_of(made))
        return made

    def count(self):
        count = dict.fromkeys(("passed", "failed", "skipped", "measured"), 0)
        for row in self.rows:
            count[row["verdict"]] += 1
        return count

    def write(self, whole):
        """`whole`: all parts have been run. Until then the file says what there is, and that it is not all."""
        told = {**self.facts, "device": self.label, "whole": whole, **self.count(), "rows": self.rows}
        replace(os.path.join(self.out, "gpu-check.json"), json.dumps(told, indent=1) + "\n")


def number(x):
    return f"{x:.3g}" if abs(x) < 1000 else f"{x:,.0f}"


def line_of(row):
    words = [f"{row['part']:<9}", f"{row['name']:<28}", f"{row['verdict']:<9}"]
    if row["value"] is not None:
        words.append(f"{number(row['value'])} {row['unit'] or ''}".strip())
    if row["versus_value"] is not None:
        words.append(f"({row['versus']}: {number(row['versus_value'])})")
    return " ".join(words + [row["note"]]).rstrip()
