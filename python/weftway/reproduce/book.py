"""The results book: a summary, a page per paper and a page per figure. Made from results, never by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from weftway.markdown import table
from weftway.report.numbers import whole_percent
from weftway.runs.backends import SIM
from weftway.runs.store import whole
from weftway.terminal.table import Cells, Value

from . import plots
from .gains import WORTH, ExperimentSettings, Gain, Record, distinct, hopeless, of_run, places, records
from .page import ours, printed, short
from .results import Result
from .runs import FULL, QUICK, Effort, Run
from .stacks import AGREES, KERNEL, QUIC, Level
from .verdict import VERDICTS

HOW = "<!-- Made by `weft reproduce --book`. Change the experiments or the rules, not this page. -->\n"
BESIDE = "earliest-delivery"
"""Runs in every experiment, though no paper has it."""
NONE = "–"


def write(pages: Mapping[str, str], folder: Path) -> Path:
    """Writes the book in Markdown, with its drawings, and returns its first page."""
    for name, text in pages.items():
        with whole(folder / name) as half:
            half.write_text(HOW + text if name.endswith(".md") else text, encoding="utf-8")
    return folder / "README.md"


def pages(
    results: Sequence[Result], runs: Sequence[Run], options: str, levels: Sequence[Level] = (), command: str = ""
) -> dict[str, str]:
    """Every file of the book by its name. `options` make the same verdicts again, `command` the same book."""
    stated = [run for run in runs if run.choice is None]
    gains = [gain for run in stated for gain in of_run(run)]
    papers = list(dict.fromkeys(result.experiment.paper for result in results))
    pages = {
        "README.md": _summary(results, gains, papers, command or " ".join(filter(None, ["./weft reproduce", options])))
    }
    for paper in papers:
        of_paper = [result for result in results if result.experiment.paper == paper]
        figures = list(dict.fromkeys(result.experiment.figure for result in of_paper))
        measured = [level for level in levels if level.experiment.paper == paper]
        pages[f"{paper}/README.md"] = _paper(of_paper, gains, options, bool(measured))
        if measured:
            pages[f"{paper}/stacks.md"] = _stacks(measured)
        for figure in figures:
            some = [result for result in of_paper if result.experiment.figure == figure]
            mine = [run for run in stated if (run.experiment.paper, run.experiment.figure) == (paper, figure)]
            drawing = plots.figure(mine, some)
            if drawing:
                pages[f"{paper}/{figure}.svg"] = drawing
            here = [gain for run in mine for gain in of_run(run)]
            pages[f"{paper}/{figure}.md"] = _figure(some, here, bool(drawing), options)
    return pages


def _summary(results: Sequence[Result], gains: Sequence[Gain], papers: Sequence[str], command: str) -> str:
    number = len({(result.experiment.paper, result.experiment.figure) for result in results})
    text = ["# Published experiments, and what comes out here", ""]
    text += [
        f"{_counted(number, 'figure or table', 'figures and tables')} of "
        f"{_counted(len(papers), 'paper', 'papers')}, with every number that they print and every claim that "
        "they make about them. How verdicts are found: [Reproduce published experiments]"
        "(https://github.com/weftway/weftway/blob/main/docs/how-to/reproduce.md).",
        "",
        *_shell(command),
    ]
    if gains:
        text += _who(distinct(gains))
        text += _where(gains)
    text += ["## Verdicts", ""]
    text += table(
        ["paper", "numbers and claims", *VERDICTS],
        [
            [f"[{paper}]({paper}/README.md)", *_counts([r for r in results if r.experiment.paper == paper])]
            for paper in papers
        ],
    )
    return "\n".join(
        [*text, "", "Counted is what the papers state; other readings of their texts stand on the pages.", ""]
    )


def _counted(number: int, single: str, many: str) -> str:
    return f"{number} {single if number == 1 else many}"


def _counts(results: Sequence[Result]) -> list[str]:
    stated = [result for result in results if not result.experiment.reading]
    return [str(len(stated)), *(str(sum(result.verdict.verdict == name for result in stated)) for name in VERDICTS)]


def _who(gains: Sequence[Gain]) -> list[str]:
    settings = hopeless(gains)[1]
    text = ["## Where schedulers beat min-RTT", ""]
    text += [
        "Speed (goodput, or one over the completion time) against min-RTT with the same seeds, in "
        f"{settings} settings: every value that a figure varies, under every controller, in every reading of the text; "
        "what two figures show of the same runs counts once. "
        "*Faster* and *slower*: the 95 % interval excludes no difference, "
        f"and the difference is at least {whole_percent(WORTH)}.",
        "",
    ]
    lines: list[Cells] = [
        [
            record.scheduler,
            *(str(count) for count in (len(record.gains), record.faster, record.slower)),
            _percent(record.middle),
            f"{_percent(record.best.share)} ({_where_is(record.best)})",
            f"{_percent(record.worst.share)} ({_where_is(record.worst)})",
        ]
        for record in records(gains)
    ]
    text += [*table(["scheduler", "settings", "faster", "slower", "median", "most", "least"], lines, 1, 2, 3, 4), ""]
    helped = [record for record in records(gains) if record.faster]
    if helped:
        text += ["Where each is faster, and by how much:", ""]
        text += [
            f"- {record.scheduler}: {_list([gain for gain in record.gains if gain.is_faster])}." for record in helped
        ]
    return [*text, ""]


def _list(gains: Sequence[Gain]) -> str:
    """Settings and gains, in words; what an experiment varies in one breath."""
    of: dict[str, list[Gain]] = {}
    for gain in gains:
        of.setdefault(gain.run.experiment.name, []).append(gain)
    parts = []
    for some in of.values():
        each = "; ".join(f"{gain.place}: {_percent(gain.share)}" for gain in some)
        parts.append(f"{_link(some[0].run)} ({each})")
    return ", ".join(parts)


def _where(gains: Sequence[Gain]) -> list[str]:
    none, settings = hopeless(gains)
    text = ["## Where none helps", ""]
    text += [
        f"In {none} of the {settings} settings no scheduler that was run is faster than min-RTT. *Best* is the "
        "scheduler with the largest mean gain over the settings of a line, if that is at least "
        f"{whole_percent(WORTH)}.",
        "",
    ]
    lines = [
        [
            ", ".join(_link(run) for run in place.runs),
            f"{place.runs[0].jobs[0].variant.transport}, {place.cc}",
            f"{place.hopeless} of {len(place.settings)}",
            *((place.best[0], _percent(place.best[1])) if place.best[1] >= WORTH else (NONE, NONE)),
            _of(place, BESIDE),
        ]
        for place in places(gains)
    ]
    head = ["experiment", "transport, controller", "none faster in", "best", "its gain", BESIDE]
    return [*text, *table(head, lines, 2, 4, 5), ""]


def _of(place: ExperimentSettings, scheduler: str) -> str:
    gains = place.of(scheduler)
    return _percent(fmean([gain.share for gain in gains])) if gains else NONE


def _link(run: Run) -> str:
    experiment = run.experiment
    return f"[{experiment.name}]({experiment.paper}/{experiment.figure}.md)"


def _where_is(gain: Gain) -> str:
    return f"{_link(gain.run)}: {gain.place}"


def _paper(results: Sequence[Result], gains: Sequence[Gain], options: str, measured: bool) -> str:
    experiment = results[0].experiment
    text = [
        f"# {experiment.paper}",
        "",
        f"In print: {_reference(str(experiment.published.get('paper', '')))}. [All papers](../README.md).",
        "",
    ]
    figures = list(dict.fromkeys(result.experiment.figure for result in results))
    lines = []
    for figure in figures:
        some = [result for result in results if result.experiment.figure == figure]
        lines.append([f"[{figure}]({figure}.md)", some[0].experiment.scenario.title, *_counts(some)])
    text += ["## Figures and tables", "", *table(["", "what", "of", *VERDICTS], lines, 2, 3, 4, 5, 6), ""]
    claims = [result for result in results if result.printed is None]
    readings = list(dict.fromkeys(result.experiment.reading for result in claims))
    if claims:
        text += ["## What it claims, and what we see", ""]
        seen = dict.fromkeys((result.experiment.figure, result.words) for result in claims)
        verdicts = {(r.experiment.figure, r.words, r.experiment.reading): r.verdict.verdict for r in claims}
        rows = [
            [f"[{figure}]({figure}.md)", words, *(verdicts.get((figure, words, reading), NONE) for reading in readings)]
            for figure, words in seen
        ]
        text += [*table(["", "claim", *(reading or "as stated" for reading in readings)], rows), ""]
    mine = distinct([gain for gain in gains if gain.run.experiment.paper == experiment.paper])
    if mine:
        text += ["## Against min-RTT", "", *_against(records(mine)), ""]
    if measured:
        text += ["## On a real stack", "", "[Its networks on a real stack](stacks.md), beside the simulator.", ""]
    return "\n".join([*text, *_command(experiment.paper, options)])


STACKS = {
    KERNEL: "Linux has one scheduler and no coupled controller. So it judges networks: the same links and workload, in "
    'the simulator (`stack = "linux-v1"`, whose scheduler is Linux\'s) and in the kernel, in real time. Workloads are '
    "20 s or 10 MB. Both columns are medians.",
    QUIC: "The schedulers of the paper in noq, a Multipath QUIC stack, over the same links in virtual time. Columns "
    "are means.",
}


def _stacks(levels: Sequence[Level]) -> str:
    """A paper's networks in the simulator and in a real stack."""
    first = levels[0]
    agree = sum(level.agrees for level in levels)
    text = [f"# {first.experiment.paper} on a real stack", "", STACKS[first.backend], ""]
    text += [
        f"The two are within {whole_percent(AGREES)} of one another in {agree} of {len(levels)} lines. Elsewhere a "
        "printed level "
        "has a verdict only if both meet it, or neither does. [The paper](README.md).",
        "",
    ]
    with_numbers = any(level.printed is not None for level in levels)
    head = ["experiment", "setting", "scheduler", *(["paper"] if with_numbers else [])]
    head += ["simulator", first.backend, "ratio", f"within {whole_percent(AGREES)}"]
    lines = []
    for level in levels:
        values = ", ".join(dict.fromkeys(value for _, value in level.scope.at))
        number = NONE if level.printed is None else f"{level.printed:g}"
        lines.append(
            [
                f"[{level.experiment.name}]({level.experiment.figure}.md)",
                f"{level.scope.cc}{', ' if values else ''}{values}",
                level.scheduler,
                *([number] if with_numbers else []),
                f"{short(level.sim, 4)} {plots.unit(level.metric)}",
                f"{short(level.real, 4)} {plots.unit(level.metric)}",
                f"{level.ratio:.2f}",
                "yes" if level.agrees else "no",
            ]
        )
    text += table(head, lines, *range(3, len(head) - 1))
    return "\n".join([*text, "", *_command(first.experiment.paper, "--stacks")])


def _reference(paper: str) -> str:
    return (
        f"[{paper}](https://doi.org/{paper.replace('(', '%28').replace(')', '%29')})"
        if paper.startswith("10.")
        else paper
    )


def _against(records: Sequence[Record]) -> list[str]:
    lines: list[Cells] = [
        [
            record.scheduler,
            *(str(count) for count in (len(record.gains), record.faster, record.slower)),
            *(_percent(share) for share in (record.middle, record.worst.share, record.best.share)),
        ]
        for record in records
    ]
    return table(["scheduler", "settings", "faster", "slower", "median", "least", "most"], lines, 1, 2, 3, 4, 5, 6)


def _figure(results: Sequence[Result], gains: Sequence[Gain], drawn: bool, options: str) -> str:
    first = results[0].experiment
    about = first.published
    text = [f"# {first.scenario.title}", "", str(first.text.get("description", "")), ""]
    text += [
        f"In the paper: {_reference(str(about.get('paper', '')))}, {about.get('place', '')}. [The paper](README.md).",
        "",
    ]
    if why := about.get("cannot_run"):
        text += [f"It cannot be run here: {why}.", ""]
    if drawn:
        text += [f"![What is printed, and ours]({first.figure}.svg)", ""]
    for name in dict.fromkeys(result.experiment.name for result in results):
        here = [gain for gain in gains if gain.run.experiment.name == name]
        text += _reading([result for result in results if result.experiment.name == name], here, options)
    return "\n".join(text)


def _reading(results: Sequence[Result], gains: Sequence[Gain], options: str) -> list[str]:
    experiment = results[0].experiment
    text = [f"## {experiment.reading or 'As stated'}", ""]
    if experiment.reading:
        text += [str(experiment.text.get("description", "")), ""]
    lines: list[Cells] = [
        [
            Value(result.verdict.verdict, mark="strong"),
            result.words,
            printed(result),
            ours(result),
            _sensitivity(result),
            result.verdict.reason,
        ]
        for result in results
    ]
    text += table(["verdict", "number or claim", "paper", "ours", "other settings", "why"], lines, 2, 3)
    if gains:
        text += ["", "Speed against min-RTT, over the settings of this figure:", "", *_against(records(gains))]
    notes = [line for result in results for line in _mechanism(result)]
    if notes:
        text += ["", "What the schedulers did where it does not hold:", "", *notes]
    return [*text, "", *_command(experiment.name, options)]


def _mechanism(result: Result) -> list[str]:
    return [f"- {result.words}:", *(f"    - {line}" for line in result.mechanism)] if result.mechanism else []


def _sensitivity(result: Result) -> str:
    """In how many of the drawn settings it holds, how far our estimate goes in them, and what moves it."""
    some = result.settings
    if some is None or some.share is None or some.range is None:
        return NONE
    low, high = (short(result.in_print(value), 3) for value in some.range)
    cause = some.explains()
    most = f"; {whole_percent(cause[1])} by `{cause[0]}`" if cause else ""
    return f"{whole_percent(some.share)} of {len(some.met)}; {low} to {high}{most}"


def _command(name: str, options: str) -> list[str]:
    return _shell(" ".join(word for word in ("./weft reproduce", name, options) if word))


def _shell(words: str) -> list[str]:
    return ["```sh", words, "```", ""]


def options(effort: Effort, full: bool, backend: str) -> str:
    """The options that make the same verdicts again."""
    usual = FULL if full else QUICK
    parts = ["--full"] if full else []
    parts += [f"--seeds {effort.seeds}"] if effort.seeds != usual.seeds else []
    parts += [f"--sensitivity {effort.settings}"] if effort.settings != usual.settings else []
    return " ".join([*parts, *([f"--backend {backend}"] if backend != SIM.name else [])])


def _percent(share: float) -> str:
    text = f"{100 * share:+.1f} %"
    return "0.0 %" if text in ("+0.0 %", "-0.0 %") else text.replace("-", "−")
