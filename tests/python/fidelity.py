"""Renews the summary of docs/explanation/fidelity.md: `python tests/python/fidelity.py`.

Runs the test that replays the kernel's cells and takes the summary from what it prints. The page's sentences about it
are for a person to read again.
"""

import re
import subprocess

from weftway.scenario import HOME

PAGE = HOME / "docs/explanation/fidelity.md"
SUMMARY = re.compile(r"^\d+ cells; .*\nsingle path: .*\n", re.MULTILINE)
COMMAND = (
    "cargo",
    "test",
    "--quiet",
    "--release",
    "-p",
    "weftway-sim",
    "--test",
    "all",
    "fidelity::",
    "--",
    "--nocapture",
)


def main() -> None:
    done = subprocess.run(COMMAND, cwd=HOME, capture_output=True, text=True, check=True)
    summary = SUMMARY.search(done.stdout)
    assert summary, "the test prints a summary"
    PAGE.write_text(SUMMARY.sub(lambda _: summary.group(), PAGE.read_text()))


if __name__ == "__main__":
    main()
