#!/usr/bin/env python3
"""clang_check.py compile_commands.json: every file again, with its own flags, through clang.

Only looks (-fsyntax-only, -Werror), so that a build with gcc is also known to be clean with clang.
"""
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys


def command_of(entry):
    words = shlex.split(entry["command"])[1:]
    out = words.index("-o")
    del words[out : out + 2]
    return ["clang", "-fsyntax-only", "-Werror", *words]


def check(entry):
    done = subprocess.run(
        command_of(entry), cwd=entry["directory"], capture_output=True, text=True
    )
    return done.returncode, done.stderr


def main():
    with open(sys.argv[1]) as f:
        # One look a file: a source that several targets compile has the same flags in each.
        entries = {entry["file"]: entry for entry in json.load(f)}.values()
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", "2"))) as pool:
        for code, text in pool.map(check, entries):
            if code:
                failed += 1
                print(text, end="", file=sys.stderr)
    if failed:
        print(f"clang: {failed} of {len(entries)} files have warnings", file=sys.stderr)
    return failed > 0


sys.exit(main())
