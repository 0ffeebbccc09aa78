"""Overlap over a real link: `make bench-net` trains the model of overlap.py on two hosts with a rank each, between
which TCP runs over a cable (scripts/hosts.sh) of such a rate that transfers take 40% of a serial step.
"""
import os
import shutil
import subprocess

import overlap
from programs import last, row

HOSTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scripts", "hosts.sh")


def cable(program):
    """Each host has its part of the cores."""
    return lambda gbps: (["sh", HOSTS, "-r", f"{gbps * 1000:.0f}mbit", "2", "mpirun", "-n", "2", program, "train"], {})


def measure(program, folder, out, say):
    """The picture of the overlapped step is kept beside `out`."""
    ready = subprocess.run(["sh", HOSTS, "2", "mpirun", "-n", "2", program, "info"], capture_output=True, text=True)
    if ready.returncode != 0:
        return [row("net.overlap.hidden", None, "share", note=last(ready.stdout + ready.stderr))]
    rows = overlap.measure(cable(program), folder, say, "net.overlap", "two hosts, TCP over a cable of")
    shutil.copy(os.path.join(folder, "on", "timeline.png"),
                os.path.join(os.path.dirname(out), "net-timeline.png"))
    return rows
