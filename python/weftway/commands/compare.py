"""`weft compare`; and what it shares with `run` and `sweep`."""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import BACKENDS, JSON, SCENARIO, SETS
from .output import err, interruptible, out, print_json

if TYPE_CHECKING:
    from weftway.comparison import Comparison
    from weftway.plan import Plan


def command(
    scenario: SCENARIO,
    scheduler: Annotated[str | None, typer.Option(metavar="S,…|all", help="Names, or my_rules.py:MyRule.")] = None,
    cc: Annotated[str | None, typer.Option(metavar="C,…|all", help="Congestion controllers.")] = None,
    backend: Annotated[str | None, typer.Option(metavar="B,…|all", help=f"Where to run them: {BACKENDS}.")] = None,
    seeds: Annotated[str | None, typer.Option(metavar="A..B", help="Seeds; B is left out.")] = None,
    sets: SETS = None,
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Threads; all cores if not given.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Keeps rows.parquet and report.html there; resumes.")
    ] = None,
    figures: Annotated[
        str | None, typer.Option(metavar="svg,pdf,csv", help="Writes every figure into DIR/figures.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Runs schedulers side by side over the seeds of a scenario."""
    from weftway import comparison, plan
    from weftway import scenario as scenarios

    formats = figure_formats(figures, folder)
    loaded = scenarios.load(scenarios.locate(scenario), sets or [])
    with redirect_stdout(sys.stderr):  # what a scheduler in Python prints is no result
        wanted = plan.plan(loaded, scheduler, cc, seeds, backend)
        found = executed(wanted, jobs, folder)
    for line in skipped(found):
        err.print(f"skipped: {line}", markup=False)
    if as_json:
        print_json(found.rows)
    else:
        print_tables(found)
    if folder and found.rows:
        with redirect_stdout(sys.stderr):
            page = comparison.write_report(found, folder, formats)
        err.print(f"rows in {folder / 'rows.parquet'}, report in {page}")
    if found.skipped and not found.rows:
        raise typer.Exit(1)


def figure_formats(figures: str | None, folder: Path | None) -> list[str]:
    """What `--figures` names."""
    from weftway import plan, report
    from weftway._native import ScenarioError

    formats = plan.names(figures or "")
    if formats and folder is None:
        raise ScenarioError("--figures needs --out DIR, the folder to write them to")
    for name in formats:
        if name not in report.FORMATS:
            raise ScenarioError(f"--figures {name}: there is {', '.join(report.FORMATS)}")
    return formats


def executed(wanted: "Plan", jobs: int | None, folder: Path | None) -> "Comparison":
    """Runs a plan; an interrupt ends the command."""
    from weftway import comparison
    from weftway.progress import Bar

    with interruptible(), Bar(err) as bar:
        return comparison.execute(wanted, jobs, folder, bar.tell)


def skipped(found: "Comparison") -> list[str]:
    """What could not be run and why, each once: the reason is seldom a matter of the controller."""
    return list(dict.fromkeys(f"{one.job.scheduler.name}: {one.reason}" for one in found.skipped))


def print_tables(found: "Comparison") -> None:
    """The tables of a comparison, and published numbers beside ours where the scenario has them."""
    from weftway import tables
    from weftway.scenario import document

    if not found.rows:
        return
    for part in tables.comparison(found.rows, document(found.plan.scenario)):
        out.print(tables.fitted(part, out), "")
