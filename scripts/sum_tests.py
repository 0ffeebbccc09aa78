#!/usr/bin/env python3
"""sum_tests.py DIR: adds up what ctest (DIR/*.xml, JUnit) and the other steps (DIR/steps:
`passed|failed|skipped NAME [REASON]`) say.

Prints failures and the reasons of skips, how many of those that passed stand on a double of CUDA, then one
line: `N passed, N failed, N skipped`.
A test that did not run for any reason but a skip of its own has failed.
"""
import pathlib
import sys
import xml.etree.ElementTree as xml


def last_line(case):
    lines = (case.findtext("system-out") or "").strip().splitlines()
    return lines[-1].strip() if lines else "no reason given"


def read_ctest(path):
    for case in xml.parse(path).getroot().iter("testcase"):
        name = f"{path.stem}: {case.get('name')}"
        status = case.get("status")
        skip = case.find("skipped")
        if status == "run" and case.find("failure") is None:
            yield "passed", name, ""
        elif skip is not None and (skip.get("message") or "").startswith("SKIP_"):
            yield "skipped", name, last_line(case)
        else:
            yield "failed", name, ""


def read_steps(path):
    for line in path.read_text().splitlines():
        verdict, name, *why = line.split(maxsplit=2)
        yield verdict, name, " ".join(why)


def main():
    folder = pathlib.Path(sys.argv[1])
    results = []
    for path in sorted(folder.glob("*.xml")):
        results += read_ctest(path)
    if (folder / "steps").exists():
        results += read_steps(folder / "steps")
    count = {"passed": 0, "failed": 0, "skipped": 0}
    for verdict, name, why in results:
        count[verdict] += 1
        if verdict != "passed":
            print(f"{verdict}: {name}" + (f" ({why})" if why else ""))
    doubles = sum(verdict == "passed" and ": double." in name for verdict, name, _ in results)
    if doubles:
        print(f"{doubles} of those that passed: CUDA on test double")
    print(", ".join(f"{n} {verdict}" for verdict, n in count.items()), flush=True)
    return 0 if count["failed"] == 0 and count["passed"] > 0 else 1


sys.exit(main())
