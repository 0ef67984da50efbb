"""The results book: a page in Markdown per figure, and one for all of them. Made from results, never by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weftway.store import whole

from .page import ours, printed
from .results import Result
from .verdict import VERDICTS

HOW = "<!-- Made by `weft reproduce --book`. Change the experiments or the rules, not this page. -->\n"


def write(results: Sequence[Result], folder: Path, command: str) -> Path:
    """Writes a page per figure and `README.md` with all verdicts; returns the latter."""
    figures = list(dict.fromkeys((one.experiment.paper, one.experiment.figure) for one in results))
    for paper, figure in figures:
        of = [one for one in results if (one.experiment.paper, one.experiment.figure) == (paper, figure)]
        _save(folder / paper / f"{figure}.md", _figure(of))
    return _save(folder / "README.md", _summary(results, figures, command))


def _save(file: Path, text: str) -> Path:
    with whole(file) as half:
        half.write_text(HOW + text, encoding="utf-8")
    return file


def _summary(results: Sequence[Result], figures: Sequence[tuple[str, str]], command: str) -> str:
    head = ["# Published experiments and what comes out here", "", f"Made by `{command}`.", ""]
    lines = [row(["experiment", "numbers and claims", *VERDICTS]), row(["---", *["---:"] * (1 + len(VERDICTS))])]
    for paper, figure in figures:
        some = [one for one in results if (one.experiment.paper, one.experiment.figure) == (paper, figure)]
        stated = [one for one in some if not one.experiment.reading] or some
        counts = [sum(one.verdict.verdict == name for one in stated) for name in VERDICTS]
        lines.append(row([f"[{paper}/{figure}]({paper}/{figure}.md)", str(len(stated)), *map(str, counts)]))
    return "\n".join([*head, *lines, "", "Counted is the reading that a file's name alone stands for.", ""])


def _figure(results: Sequence[Result]) -> str:
    first = results[0].experiment
    about = first.published
    text = [f"# {first.scenario.title}", "", str(first.text.get("description", "")), ""]
    text += [f"In the paper: {about.get('paper', '')}, {about.get('place', '')}.", ""]
    for name in dict.fromkeys(one.experiment.name for one in results):
        text += _reading([one for one in results if one.experiment.name == name])
    return "\n".join(text)


def _reading(results: Sequence[Result]) -> list[str]:
    one = results[0].experiment
    text = [f"## {one.reading or 'As stated'}", ""]
    if one.reading:
        text += [str(one.text.get("description", "")), ""]
    text += [
        row(["verdict", "number or claim", "paper", "ours", "settings", "why"]),
        row(["---"] * 2 + ["---:"] * 3 + ["---"]),
    ]
    notes = []
    for result in results:
        share = result.settings.share if result.settings else None
        cause = result.settings.explains() if result.settings else None
        span = "–" if share is None else f"{share:.0%}" + (f", most by `{cause[0]}`" if cause else "")
        cells = [
            f"**{result.verdict.verdict}**",
            result.words,
            printed(result),
            ours(result),
            span,
            result.verdict.reason,
        ]
        text.append(row(cells))
        if result.mechanism:
            notes += [f"- {result.words}:", *(f"    - {line}" for line in result.mechanism)]
    if notes:
        text += ["", "What the schedulers did where it does not hold:", "", *notes]
    return [*text, "", f"```sh\n./weft reproduce {one.name}\n```", ""]


def row(cells: Sequence[str]) -> str:
    """A row of a table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
