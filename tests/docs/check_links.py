#!/usr/bin/env python3
"""check_links.py FILE_OR_FOLDER...: links of Markdown files that point into the tree lead somewhere:
to a file that is there, and to a heading that it has."""
import pathlib
import re
import sys

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```\s*$", re.M | re.S)
HEADING = re.compile(r"^#+\s+(.*?)\s*$", re.M)


def text_of(path):
    return FENCED.sub("", path.read_text())


def anchor(heading):
    """As GitHub makes it: code marks go, punctuation goes, spaces become hyphens."""
    plain = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
    return plain.replace(" ", "-")


def anchors(path):
    return {anchor(heading) for heading in HEADING.findall(text_of(path))}


def wrong_links(path):
    for target in LINK.findall(text_of(path)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, place = target.partition("#")
        there = (path.parent / name) if name else path
        if not there.exists():
            yield f"{path}: no file '{name}'"
        elif place and place not in anchors(there):
            yield f"{path}: no heading for '#{place}' in {there}"


def main():
    found, documents = [], 0
    for name in sys.argv[1:]:
        path = pathlib.Path(name)
        for document in sorted(path.glob("*.md")) if path.is_dir() else [path]:
            documents += 1
            found += wrong_links(document)
    print("\n".join(found) or f"{documents} documents")
    return bool(found) or documents == 0


sys.exit(main())
