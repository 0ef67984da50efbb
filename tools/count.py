"""Counts of what a maintainer has to carry: lines of code, words of Markdown, decisions, doc lines without their noun.

    python tools/count.py [--json] [--lines N] [--under PATH]

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
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOUNLESS = re.compile(
    r"^[\W_]*(What|Whether|How|When|Where|Who|That|Those|Of|From|The same|So|One|Nothing)\b",
)
# Code that is run only by tests and by those who maintain the project.
TESTS = re.compile(r"(^|/)(tests?|testing|fuzz|benches|examples|tools|site)(/|\.rs$|$)|_tests?\.rs$|^crates/vectors/")
COLUMNS = 120
LONG = 30
"""Words of a sentence that a reader still takes in at once."""


@dataclass
class Figures:
    """Counts of a checkout."""

    lines: Counter[str] = field(default_factory=Counter)
    """Lines of code by crate and by folder of the package."""
    markdown_words: int = 0
    decisions: int = 0
    long_lines: int = 0
    """Lines of Rust over 120 columns."""
    doc_lines: Counter[str] = field(default_factory=Counter)
    """Doc lines by language."""
    nounless: Counter[str] = field(default_factory=Counter)
    """Doc lines without their noun, by language."""
    places: list[str] = field(default_factory=list)
    """Places of these, with their text."""

    def shares(self) -> dict[str, float]:
        """Share of doc lines without their noun, by language."""
        return {language: self.nounless[language] / total for language, total in self.doc_lines.items()}

    def table(self) -> dict[str, object]:
        """Figures by the names under which they are printed."""
        long, total = long_sentences(newcomers())
        return {
            "lines": {folder: self.lines[folder] for folder in sorted(self.lines) if self.lines[folder]},
            "code": self.lines.total(),
            "markdown words": self.markdown_words,
            "decisions": self.decisions,
            "Rust lines over 120 columns": self.long_lines,
            "sentences over 30 words, of a newcomer's pages": round(len(long) / total, 4),
            "doc lines": dict(self.doc_lines),
            "without their noun": {language: round(share, 4) for language, share in self.shares().items()},
        }


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
            rest = inner.removeprefix(margin)
            if rest.startswith("}") or (not rest.startswith(" ") and rest.rstrip().endswith(";")):
                break
    return kept


def rust_docs(lines: list[str]) -> list[tuple[int, str]]:
    """First lines of a Rust file's doc comments, with their numbers."""
    docs = []
    before = ""
    for number, line in enumerate(lines, 1):
        mark = re.match(r"\s*(///|//!)(?!/)\s?(.*)", line)
        if mark and mark.group(1) != before:
            docs.append((number, mark.group(2)))
        before = mark.group(1) if mark else ""
    return docs


def python_docs(text: str) -> list[tuple[int, str]]:
    """First lines of a Python file's docstrings, with their numbers."""
    docs = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            doc = ast.get_docstring(node)
            if doc:
                docs.append((node.body[0].lineno, doc.splitlines()[0]))
    return docs


def sentences(markdown: str) -> list[str]:
    """Sentences of a page: of its paragraphs, items and cells of tables, without blocks of code and the targets of
    links."""
    text = re.sub(r"^(```|~~~).*?^\1", "", markdown, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<[^>]*>", " ", re.sub(r"\]\([^)]*\)", "]", text))
    text = re.sub(r"^\|[-| :]+\|$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^\s*(?:#+ .*|[-*] |\d+\. |> )", "\n\n", text, flags=re.MULTILINE)
    parts = re.split(r"\n\s*\n|\|", text)
    found = (one.split() for part in parts for one in re.split(r"(?<=[.?!])[*_)\"]*\s+(?=[^a-z\s])", part))
    return [" ".join(words) for words in found if words]


def long_sentences(pages: list[Path]) -> tuple[list[str], int]:
    """Sentences of these pages over `LONG` words, each with its page, and the number of all."""
    told = [(page, one) for page in pages for one in sentences(page.read_text(encoding="utf-8"))]
    return [f"{page.name}: {one}" for page, one in told if len(one.split()) > LONG], len(told)


def newcomers() -> list[Path]:
    """Pages that a newcomer reads: the readme, and those to start with and to do something by."""
    return [ROOT / "README.md", *sorted(ROOT.glob("docs/start/*.md")), *sorted(ROOT.glob("docs/how-to/*.md"))]


def count() -> Figures:
    """Counts what this checkout has."""
    figures = Figures()
    for name in tracked():
        path = ROOT / name
        if name.endswith(".md"):
            figures.markdown_words += len(path.read_text(encoding="utf-8").split())
            figures.decisions += bool(re.match(r"docs/decisions/\d", name))
        elif name.endswith(".rs"):
            text = path.read_text(encoding="utf-8")
            lines = text.splitlines()
            figures.lines["/".join(name.split("/")[:2])] += 0 if TESTS.search(name) else len(without_tests(text))
            figures.long_lines += sum(len(line) > COLUMNS for line in lines)
            note(figures, "Rust", name, rust_docs(lines))
        elif name.startswith("python/") and name.endswith((".py", ".pyi", ".js", ".css", ".html")):
            text = path.read_text(encoding="utf-8")
            parts = name.split("/")
            figures.lines["/".join(parts[:3]) if len(parts) > 3 else "python/weftway"] += len(text.splitlines())
            if name.endswith(".py"):
                note(figures, "Python", name, python_docs(text))
    return figures


def note(figures: Figures, language: str, name: str, docs: list[tuple[int, str]]) -> None:
    """Counts the doc lines of a file."""
    figures.doc_lines[language] += len(docs)
    for number, doc in docs:
        if NOUNLESS.match(doc):
            figures.nounless[language] += 1
            figures.places.append(f"{name}:{number}: {doc}")


def main() -> None:
    """Prints the figures."""
    options = argparse.ArgumentParser(description="Counts lines, words, decisions and doc lines without their noun.")
    options.add_argument("--json", action="store_true", help="print JSON")
    options.add_argument("--lines", type=int, default=0, metavar="N", help="print N doc lines without their noun")
    options.add_argument("--under", default="", metavar="PATH", help="of these, those whose path begins so")
    args = options.parse_args()
    figures = count()
    table = figures.table()
    if args.json:
        print(json.dumps(table))
        return
    for folder, number in figures.lines.items():
        print(f"{number:>8}  {folder}")
    for name, value in table.items():
        if name != "lines":
            print(f"{name}: {value}")
    for place in [place for place in figures.places if place.startswith(args.under)][: args.lines]:
        print(place)


if __name__ == "__main__":
    main()
