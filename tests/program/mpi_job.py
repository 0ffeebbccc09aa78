"""A run under mpirun that a test looks at and hits while it goes on. Its processes are found by a name in their
environment, whoever their parents are, so that one that is left behind is found as well."""
import json
import os
import pathlib
import signal
import subprocess
import time

from program_kit import LONGEST, Ended

MARK = "HEADRACE_TEST_JOB"
LATE = 10  # seconds in which what the launcher has killed is to be gone
SAME = ("step", "loss", "aux_loss", "grad_norm", "lr", "val_loss")


class Job:
    """Has files of its own in `folder`: what is said, and what MPI keeps for the while."""

    def __init__(self, folder, words):
        self.folder = pathlib.Path(folder)
        self.kept = self.folder / "kept"  # else in /tmp and /dev/shm, among those of others
        self.kept.mkdir(parents=True)
        env = {**os.environ, MARK: str(self.folder), "TMPDIR": str(self.kept),
               "OMPI_MCA_btl_vader_backing_directory": str(self.kept)}
        with open(self.folder / "out", "wb") as out, open(self.folder / "err", "wb") as err:
            self.launcher = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out,
                                             stderr=err, env=env)

    def processes(self):
        """The environments of those that live, by process id."""
        mark = f"{MARK}={self.folder}".encode()
        found = {}
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                names = path.read_bytes().split(b"\0")
            except OSError:  # it has ended, or is another user's
                continue
            if mark in names:
                found[int(path.parent.name)] = names
        return found

    def ranks(self):
        """The processes by rank, as the launcher told them; it has none itself."""
        return {int(value): pid for pid, names in self.processes().items()
                for name, _, value in (word.partition(b"=") for word in names)
                if name in (b"OMPI_COMM_WORLD_RANK", b"PMI_RANK")}

    def rank(self, number):
        """The process that is this rank."""
        return self.ranks()[number]

    def wait_until(self, reached):
        until = time.monotonic() + LONGEST
        while not reached():
            if self.launcher.poll() is not None:
                raise AssertionError(f"it ended too early: {self.ended().err}")
            if time.monotonic() > until:
                raise AssertionError("it does not get there")
            time.sleep(0.002)

    def hit(self, number, with_signal):
        os.kill(self.rank(number), with_signal)

    def ended(self):
        """How the launcher ended, once it has."""
        status = self.launcher.wait(timeout=LONGEST)
        return Ended(status, (self.folder / "out").read_bytes(), (self.folder / "err").read_bytes())

    def left(self):
        """What there is of it behind its end: processes, and files of MPI's."""
        until = time.monotonic() + LATE
        while self.processes() and time.monotonic() < until:
            time.sleep(0.01)
        return list(self.processes()), [path for path in self.kept.rglob("*") if path.is_file()]

    def close(self):
        """Ends what a test that failed has left."""
        if self.launcher.poll() is None:
            self.launcher.kill()
        self.launcher.wait()
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def lines(out):
    """How many steps of a run are in its metrics."""
    try:
        return (pathlib.Path(out) / "metrics.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def metrics(out):
    """What has to be the same, of each step."""
    text = (pathlib.Path(out) / "metrics.jsonl").read_text()
    return [{key: value for key, value in json.loads(line).items() if key in SAME}
            for line in text.splitlines()]


def checkpoint(out):
    """The bytes of all files of the checkpoints of a run, by name."""
    top = pathlib.Path(out) / "checkpoint"
    return {str(path.relative_to(top)): path.read_bytes()
            for path in top.rglob("*") if path.is_file()}
