"""Renews the summary of docs/explanation/fidelity.md and the table of its lab notes: `python tests/python/fidelity.py`.

Runs the test that replays the kernel's cells and takes the errors and the summary from what it prints. What the
pages say about them is for a person to read again.
"""

import csv
import re
import subprocess

from weftway.scenario import HOME

PAGES = (HOME / "docs/explanation/fidelity.md", HOME / "docs/explanation/fidelity-lab-notes.md")
CELLS = HOME / "crates/sim/tests/data/kernel.csv"
LINE = re.compile(r"(?P<cell>\S+) +(?P<cc>reno|cubic|bbr) .*? (?P<error>[+-][\d.]+) % ")
SUMMARY = re.compile(r"^\d+ cells; .*\nsingle path: .*\n", re.MULTILINE)
TABLES = re.compile(r"^\| (?:several paths|single path) \|.*?\n(?=\n(?!\|))", re.MULTILINE | re.DOTALL)
COMMAND = ("cargo", "test", "--quiet", "--release", "-p", "weftway-sim", "--test", "fidelity", "--", "--nocapture")

Errors = dict[tuple[str, str], float]


def main() -> None:
    done = subprocess.run(COMMAND, cwd=HOME, capture_output=True, text=True, check=True)
    summary = SUMMARY.search(done.stdout)
    assert summary, "the test prints a summary"
    errors = {(m["cell"], m["cc"]): float(m["error"]) for m in LINE.finditer(done.stdout)}
    for page in PAGES:
        text = SUMMARY.sub(lambda _: summary.group(), page.read_text())
        page.write_text(TABLES.sub(lambda _: tables(errors), text))


def tables(errors: Errors) -> str:
    """A table for cells with several paths, and one for those with one."""
    lines = [line for line in CELLS.read_text().splitlines() if not line.startswith("#")]
    paths = {row["scenario"]: row["paths"] for row in csv.DictReader(lines)}
    several = [cell for cell in paths if ";" in paths[cell]]
    single = [cell for cell in paths if ";" not in paths[cell]]
    return "\n".join([table("several paths", several, paths, errors), table("single path", single, paths, errors)])


def table(title: str, cells: list[str], paths: dict[str, str], errors: Errors) -> str:
    lines = [f"| {title} | cell | New Reno | CUBIC | BBR |", "|---|---|---:|---:|---:|"]
    for cell in cells:
        numbers = " | ".join(signed(errors[cell, cc]) for cc in ("reno", "cubic", "bbr"))
        lines.append(f"| {described(paths[cell])} | `{cell}` | {numbers} |")
    return "\n".join([*lines, ""])


def described(paths: str) -> str:
    """`10/10/1/j2.2/q17` as a reader takes it: the jitter's size and the usual queue are said once for all."""
    return " + ".join(one(path.split("/")) for path in paths.split(";"))


def one(fields: list[str]) -> str:
    jitter = " j" if any(field.startswith("j") for field in fields) else ""
    queue = "" if "q100" in fields else f" queue {fields[-1][1:]}"
    return "/".join(fields[:3]) + jitter + queue


def signed(error: float) -> str:
    return f"{'−' if error < 0 else '+'}{abs(error):.1f}"


if __name__ == "__main__":
    main()
