#!/usr/bin/env python3
"""compile_examples.py LIBHEADRACE FILE_OR_FOLDER...: the C blocks of Markdown files, compiled.

A block that includes something stands alone: built and run where it has a main(), else compiled as
a file of src/. ```c file is a part of a file: functions, types, tables. Any other ```c is a part of
a function. The parts of a document are one unit, in order, behind tests/docs/around_examples.h, and
are linked, so that what they call exists. ```cpp is the same in C++17. Line numbers in messages are
the document's.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
AROUND = ROOT / "tests/docs/around_examples.h"
FENCE = re.compile(r"^```(c|cpp)( file)?\s*$")
NAMES = ["dev", "compute", "comm", "event", "world", "pp_group", "node", "x", "y", "dy", "t",
         "layer", "model"]
LANGUAGES = {
    "c": [os.environ.get("CC", "cc"), "-std=c11"],
    "cpp": [os.environ.get("CXX", "c++"), "-std=c++17"],
}
FLAGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unused", "-Wno-unused-parameter", "-fPIC",
         f"-I{ROOT / 'include'}"]


def blocks(path):
    """(language, is a part of a file, first line, text) for each block."""
    found, start = None, 0
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines, 1):
        if found is None:
            found = FENCE.match(line)
            start = number + 1
        elif line.startswith("```"):
            yield found[1], bool(found[2]), start, "\n".join(lines[start - 1 : number - 1]) + "\n"
            found = None
    if found:
        raise SystemExit(f"{path}: a block that begins at line {start} has no end")


def unit(path, parts):
    text = [f'#include "{AROUND}"\n']
    for is_file, line, body in parts:
        place = f'#line {line} "{path}"\n'
        if is_file:
            text.append(place + body)
        else:
            name = f"example_at_{line}"
            text.append(f"hr_status {name}(void);\nhr_status {name}(void)\n{{\n{place}{body}"
                        "return HR_OK;\n}\n")
    return "".join(text)


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode:
        print(f"{command[0]} failed:\n{done.stdout}{done.stderr}", end="")
    return done.returncode == 0


class Builder:
    def __init__(self, library, folder):
        self.folder = pathlib.Path(folder)
        self.link = [library, f"-Wl,-rpath,{pathlib.Path(library).parent}"]
        # The names of around_examples.h: addresses that nothing follows, for nothing of it runs.
        self.names = self.compile("c", "names", "".join(f"void *{name};\n" for name in NAMES))

    def compile(self, language, name, text, *flags):
        source = self.folder / f"{name}.{language}"
        source.write_text(text)
        out = source.with_suffix(".o")
        return out if run([*LANGUAGES[language], *FLAGS, *flags, "-c", source, "-o", out]) else None

    def program(self, path, language, line, body):
        body = f'#line {line} "{path}"\n{body}'
        if not re.search(r"\bmain\s*\(", body):
            return self.compile(language, "inside", body, f"-I{ROOT / 'src'}", "-D_GNU_SOURCE")
        out = self.folder / "program"
        made = self.compile(language, "program", body)
        return (made and run([LANGUAGES[language][0], made, *self.link, "-o", out])
                and run([out], timeout=60))

    def parts(self, path, language, parts):
        made = self.compile(language, "parts", unit(path, parts))
        return made and run([LANGUAGES[language][0], "-shared", "-Wl,--no-undefined", made,
                             self.names, *self.link, "-o", self.folder / "parts.so"])


def documents(arguments):
    for name in arguments:
        path = pathlib.Path(name)
        yield from sorted(path.glob("*.md")) if path.is_dir() else [path]


def check(builder, path):
    good, count, parts = True, 0, {}
    for language, is_file, line, body in blocks(path):
        if not shutil.which(LANGUAGES[language][0]):
            print(f"{path}:{line}: left out, there is no {LANGUAGES[language][0]}")
            continue
        count += 1
        if "#include" in body:
            good = bool(builder.program(path, language, line, body)) and good
        else:
            parts.setdefault(language, []).append((is_file, line, body))
    for language, found in parts.items():
        good = bool(builder.parts(path, language, found)) and good
    print(f"{path}: {count} example{'' if count == 1 else 's'}{'' if good else ', FAILED'}")
    return good, count


def main():
    with tempfile.TemporaryDirectory() as folder:
        builder = Builder(sys.argv[1], folder)
        results = [check(builder, path) for path in documents(sys.argv[2:])]
    if sum(count for _, count in results) == 0:
        print("no example at all")
        return 1
    return not all(good for good, _ in results)


sys.exit(main())
