"""Counts lines of code, words of Markdown, decisions, and doc lines that begin without their noun.

    python tools/count.py [--json] [--lines N]

Only files that git has are counted. Lines of tests are left out: folders and files named for tests, and modules under
`#[cfg(test)]`. A doc line is the first line of a doc comment (Rust) or of a docstring (Python). It begins without its
noun if its first word is in `NOUNLESS`. `--lines` prints the first N of these, with their places.
"""

import argparse
import ast
import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NOUNLESS = re.compile(
    r"^[\W_]*(What|Whether|How|When|Where|Who|That|Those|Of|From|The same|So|One|Nothing)\b",
)
# Code that is run only by tests and by those who maintain the project.
TESTS = re.compile(r"(^|/)(tests?|testing|fuzz|benches|examples|tools|site)(/|\.rs$|$)|_tests?\.rs$|^crates/vectors/")


def tracked() -> list[str]:
    """Paths of the files that git has."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [name for name in listing.decode().split("\0") if name and (ROOT / name).is_file()]


def without_tests(text: str) -> list[str]:
    """Lines of a Rust file without the modules under `#[cfg(test)]`."""
    kept: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        if not re.match(r"\s*#\[cfg\((any\()?test", line):
            kept.append(line)
            continue
        # The item ends with the line that closes it at its own depth, or at once with a semicolon.
        margin = line[: len(line) - len(line.lstrip())]
        for inner in lines:
            if inner.startswith(f"{margin}}}") or (
                inner.startswith(margin) and inner.rstrip().endswith(";") and not inner[len(margin) :].startswith(" ")
            ):
                break
    return kept


def rust_docs(lines: list[str]) -> list[tuple[int, str]]:
    """First lines of a Rust file's doc comments, with their numbers."""
    found = []
    before = ""
    for number, line in enumerate(lines, 1):
        mark = re.match(r"\s*(///|//!)(?!/)\s?(.*)", line)
        if mark and mark.group(1) != before:
            found.append((number, mark.group(2)))
        before = mark.group(1) if mark else ""
    return found


def python_docs(text: str) -> list[tuple[int, str]]:
    """First lines of a Python file's docstrings, with their numbers."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            doc = ast.get_docstring(node)
            if doc:
                found.append((node.body[0].lineno, doc.splitlines()[0]))
    return found


def count() -> dict[str, Any]:
    """All figures, and the places of doc lines without their noun."""
    lines: Counter[str] = Counter()
    docs: Counter[str] = Counter()
    nounless: Counter[str] = Counter()
    places: list[str] = []
    words = long = decisions = 0
    for name in tracked():
        path = ROOT / name
        if name.endswith(".md"):
            words += len(path.read_text().split())
            decisions += bool(re.match(r"docs/decisions/\d", name))
            continue
        if name.endswith(".rs"):
            text = path.read_text()
            kept = [] if TESTS.search(name) else without_tests(text)
            language, first = "Rust", rust_docs(text.splitlines())
            folder = "/".join(name.split("/")[:2])
            long += sum(len(line) > 120 for line in text.splitlines())
        elif name.startswith("python/") and name.endswith((".py", ".pyi", ".js", ".css", ".html", ".jinja", ".j2")):
            text = path.read_text()
            kept = text.splitlines()
            language, first = "Python", python_docs(text) if name.endswith(".py") else []
            parts = name.split("/")
            folder = "/".join(parts[:3]) if len(parts) > 3 else "python/weftway"
        else:
            continue
        lines[folder] += len(kept)
        docs[language] += len(first)
        for number, doc in first:
            if NOUNLESS.match(doc):
                nounless[language] += 1
                places.append(f"{name}:{number}: {doc}")
    return {
        "lines": {folder: lines[folder] for folder in sorted(lines) if lines[folder]},
        "code": sum(lines.values()),
        "markdown words": words,
        "decisions": decisions,
        "Rust lines over 120 columns": long,
        "doc lines": dict(docs),
        "without their noun": {language: round(nounless[language] / docs[language], 4) for language in docs},
        "places": places,
    }


def main() -> None:
    """Prints the figures."""
    options = argparse.ArgumentParser(
        description="Counts lines of code, words of Markdown and doc lines that begin without their noun."
    )
    options.add_argument("--json", action="store_true", help="print JSON")
    options.add_argument(
        "--lines", type=int, default=0, metavar="N", help="print the first N doc lines without their noun"
    )
    options.add_argument("--under", default="", metavar="PATH", help="only places whose path begins so")
    args = options.parse_args()
    figures = count()
    places = [place for place in figures.pop("places") if place.startswith(args.under)]
    if args.json:
        print(json.dumps(figures))
        return
    for folder, number in figures.pop("lines").items():
        print(f"{number:>8}  {folder}")
    for name, value in figures.items():
        print(f"{name}: {value}")
    print(f"doc lines without their noun{f' under {args.under}' if args.under else ''}: {len(places)}")
    for place in places[: args.lines]:
        print(place)


if __name__ == "__main__":
    main()
