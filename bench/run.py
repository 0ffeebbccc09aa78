#!/usr/bin/env python3
"""`make bench`: runs every benchmark, prints one table, writes bench.json. Ratios of one run, medians of
several; no pass or fail. docs/benchmarks.md says what each figure means.

    run.py PROGRAM OUT.json [NAME...]     only the benchmarks whose names start so; of the others OUT keeps its rows

`net` wants root: it runs only when it is named.
"""
import json
import os
import sys
import tempfile

import executor
import launches
import memory
import net
import nodes
import operators
import overlap
import processes
import programs
import schedules
import tokens

HERE = os.path.dirname(os.path.abspath(__file__))


def say(text):
    print(text, file=sys.stderr, flush=True)


def number(x):
    return "-" if x is None else f"{x:.3g}" if abs(x) < 1000 else f"{x:,.0f}"


def table(rows):
    head = ("name", "value", "unit", "versus", "its value", "ratio")
    lines = [head] + [(r["name"], number(r["value"]), r["unit"], r["versus"] or "-",
                       number(r["versus_value"]), number(r["ratio"])) for r in rows]
    width = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for line in lines:
        print("  ".join(word.ljust(w) for word, w in zip(line, width)).rstrip())
    for note in dict.fromkeys(r["note"] for r in rows if r.get("note")):
        print("  " + note)


def absent_peers(built):
    """What cannot be compared with, and how to get it."""
    absent = [name for name, path in launches.peers(built).items() if not os.path.exists(path)]
    if programs.python(HERE, "peer_node.py", "--version")[0] is None:
        absent.append("pytorch")
    if absent:
        say(f"not here to compare with: {', '.join(absent)} (scripts/install_deps.sh bench, then make bench)")


def kept(out, names, all_ran):
    """Rows of earlier runs that this one has not replaced."""
    if not os.path.exists(out):
        return []
    with open(out) as f:
        return [r for r in json.load(f)
                if r["name"] not in names and (not all_ran or r["name"].startswith("net."))]


def main():
    program, out, wanted = os.path.abspath(sys.argv[1]), sys.argv[2], tuple(sys.argv[3:])
    built = os.path.join(os.path.dirname(program), "bench")
    rows = []
    say(f"load average before: {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")
    absent_peers(built)
    with tempfile.TemporaryDirectory() as folder:
        for name, run in (("node", lambda: nodes.measure(built, HERE, say)),
                          ("stream", lambda: launches.measure(built, folder, say)),
                          ("memory", lambda: memory.measure(built, say)),
                          ("schedule", lambda: schedules.measure(built, program, folder, HERE, say)),
                          ("exec", lambda: executor.measure(built, say)),
                          ("mpi", lambda: processes.measure(built, say)),
                          ("ops", lambda: operators.measure(built, say)),
                          ("overlap", lambda: overlap.measure(overlap.imitated(program), folder, say)),
                          ("net", lambda: net.measure(program, folder, out, say)),
                          ("train", lambda: tokens.measure(program, folder, HERE, say))):
            if name.startswith(wanted) if wanted else name != "net":
                rows += run()
    whole = kept(out, {r["name"] for r in rows}, not wanted) + rows
    with open(out, "w") as f:
        json.dump(whole, f, indent=1)
        f.write("\n")
    table(rows)


main()
