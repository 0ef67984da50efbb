"""`weft compare`; and what it shares with `run` and `sweep`."""

import shlex
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weftway.terminal.exit_status import BAD_INPUT, RUN_FAILED

from . import live
from .options import BACKENDS, JOBS, JSON, SCENARIO, SETS, controllers, schedulers
from .output import err, fail, interruptible, out, print_json, print_notes, print_tables

if TYPE_CHECKING:
    from weftway.report.earlier import Earlier
    from weftway.runs.comparison import Comparison
    from weftway.runs.plan import Plan


def command(
    scenario: SCENARIO,
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            "--schedulers",
            metavar="S,…|all",
            help="Names, my_rules.py:MyRule, or Mine=my_rules.py:MyRule.",
            autocompletion=schedulers,
        ),
    ] = None,
    cc: Annotated[
        str | None, typer.Option(metavar="C,…|all", help="Congestion controllers.", autocompletion=controllers)
    ] = None,
    backend: Annotated[str | None, typer.Option(metavar="B,…|all", help=f"Where to run them: {BACKENDS}.")] = None,
    seeds: Annotated[str | None, typer.Option("--seeds", "--seed", metavar="A..B", help="Seeds, without B.")] = None,
    sets: SETS = None,
    jobs: JOBS = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for rows.parquet and report.html; resumes.")
    ] = None,
    figures: Annotated[
        str | None, typer.Option(metavar="svg,pdf,csv,tex", help="Writes figures, tables, methods into DIR/figures.")
    ] = None,
    width: Annotated[str | None, typer.Option(metavar="3.3in", help="Width of the figures: that of a column.")] = None,
    top: Annotated[int, typer.Option(min=0, metavar="N", help="Schedulers per controller in the table; 0: all.")] = 10,
    against: Annotated[
        Path | None, typer.Option("--against", metavar="DIR", help="Shows the changes since an earlier --out DIR.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="REV", help="Shows the changes since an earlier commit of Weftway.")
    ] = None,
    bound: Annotated[
        bool, typer.Option("--bound", help="Adds what the links allow at best to simulated rows.")
    ] = False,
    peer: live.PEER = None,
    pair: live.PAIR = None,
    paths: live.PATHS = None,
    as_json: JSON = False,
) -> None:
    """Compares schedulers over the seeds of a scenario."""
    from weftway import report
    from weftway import scenario as scenarios
    from weftway.runs import plan
    from weftway.terminal.progress import Bar

    formats = figure_formats(figures, folder, width)
    if at is not None and (against or peer):
        fail("--at REV runs the comparison by an earlier commit: leave out --against and --peer", BAD_INPUT)
    before = earlier_rows(against)
    live.meet(peer, pair, paths)
    file = scenarios.locate(scenario)
    loaded = scenarios.load(file, sets or [])
    if at is not None:
        named = {"--scheduler": scheduler, "--cc": cc, "--backend": backend, "--seeds": seeds}
        before = by_commit(at, file, {option: value for option, value in named.items() if value}, sets or [])
    with redirect_stdout(sys.stderr):  # what a scheduler in Python prints is no result
        wanted = plan.plan(loaded, scheduler, cc, seeds, backend)
        comparison = executed(wanted, jobs, folder, bound, report.MOST_TIMELINES if folder else 0)
        if not comparison.rows:
            comparison.complete()
        # Files first: whoever reads what is printed may stop at any line.
        page = None
        if folder and comparison.rows:
            command = shlex.join(["weft", *sys.argv[1:]])
            with Bar(err, "figures", "drawn") as bar:
                page = report.write(comparison, folder, formats, command, before, width, bar.tell)
    warn(comparison)
    if as_json:
        print_json(comparison.rows)
    else:
        print_results(comparison, top, before)
    if folder and page:
        err.print(f"rows in {folder / 'rows.parquet'}, report in {page}")
    if comparison.failed or not comparison.rows:
        raise typer.Exit(RUN_FAILED)  # why is told


def figure_formats(figures: str | None, folder: Path | None, width: str | None = None) -> list[str]:
    """Formats that `--figures` names. A width that is none is refused before anything runs."""
    from weftway import report
    from weftway._native import ScenarioError
    from weftway.runs import plan

    formats = plan.names(figures or "")
    if formats and folder is None:
        raise ScenarioError("--figures needs --out DIR, the folder to write them to")
    if figures is not None and not formats:
        raise ScenarioError(f"--figures {figures}: it names none; there is {', '.join(report.FORMATS)}")
    for name in formats:
        if name not in report.FORMATS:
            raise ScenarioError(f"--figures {name}: there is {', '.join(report.FORMATS)}")
    if width is not None:
        if not formats:
            raise ScenarioError("--width goes with --figures, which are drawn so wide")
        from weftway.report.lettering import points

        points(width)
    return formats


def earlier_rows(folder: Path | None, option: str = "--against") -> "Earlier | None":
    """The rows that an earlier comparison kept. They are read before this one may write into the same folder."""
    if folder is None:
        return None
    from weftway._native import ScenarioError

    file = folder / "rows.parquet"
    if not file.is_file():
        raise ScenarioError(f"{option} {folder}: there is no rows.parquet; name a folder that `compare --out` wrote")
    from weftway.report.earlier import Earlier, shown
    from weftway.runs.store import read_rows

    try:
        return Earlier(str(folder), shown(read_rows(file, ["cc", "scheduler"])))
    except (ScenarioError, OSError) as error:
        raise ScenarioError(f"{option} {folder}: {error}") from error


def by_commit(name: str, file: str, named: dict[str, str], sets: list[str]) -> "Earlier":
    """The rows of the same comparison by an earlier commit."""
    from dataclasses import replace

    from weftway.runs import revision

    options = [word for option, value in named.items() for word in (option, value)]
    rows = revision.compared(
        revision.tree(name), [file, *options, *(w for setting in sets for w in ("--set", setting))]
    )
    earlier = earlier_rows(rows, f"--at {name}: the rows in")
    assert earlier is not None, "a folder is named"
    return replace(earlier, name=name)


def executed(
    wanted: "Plan", jobs: int | None, folder: Path | None, bound: bool = False, watched_runs: int = 0
) -> "Comparison":
    """Runs a plan; an interrupt ends the command. Of so many runs a page will show what they look like over time."""
    from weftway.report.interim import Interim
    from weftway.runs import comparison
    from weftway.runs.runner import quiet
    from weftway.terminal.progress import Bar

    so_far = Interim(wanted)
    with interruptible(), Bar(err, above=so_far.table) as bar:
        on_row = so_far.add if err.is_terminal else quiet
        return comparison.execute(wanted, jobs, folder, bar.tell, bound, watched_runs, on_row)


def skipped(comparison: "Comparison") -> list[str]:
    """Lines that say what could not be run and why, each once: the reason is seldom a matter of the controller."""
    return list(dict.fromkeys(f"{skip.job.scheduler.title}: {skip.reason}" for skip in comparison.skipped))


def warn(comparison: "Comparison") -> None:
    """Tells what could not be run, which runs failed, and which rows are not the scheduler's alone."""
    print_notes(skipped(comparison), comparison.warnings)


def print_results(comparison: "Comparison", top: int = 10, before: "Earlier | None" = None) -> None:
    """The tables of a comparison, published numbers beside ours where the scenario has them, and what came of it."""
    from weftway.report import printed
    from weftway.report.study import study_of

    if not comparison.rows:
        return
    print_tables(printed.of(study_of(comparison), top))
    for sentence in [*printed.told(study_of(comparison), before), *filter(None, [comparison.kept.sentence])]:
        out.print(sentence)
