"""`weft reproduce`."""

import shlex
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from weftway.terminal.exit_status import RUN_FAILED

from .options import BACKENDS, JOBS, JSON, MOST
from .output import err, interruptible, out, print_json, print_notes, print_tables


class Power(StrEnum):
    excluded = "excluded"
    always = "always"


def command(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PAPER[/FIGURE]]…", help="lubna-2022, lubna-2022/table1. Default: all."),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full/--quick", help="The files' own seeds and 40 settings, or 5 seeds and a few settings."),
    ] = False,
    sensitivity: Annotated[
        int | None,
        typer.Option(min=0, max=MOST, metavar="N", help="Number of settings for values that the papers do not give."),
    ] = None,
    backend: Annotated[str, typer.Option(metavar="B", help=f"Where to run them: {BACKENDS}.")] = "sim",
    seeds: Annotated[
        str | None, typer.Option("--seeds", "--seed", metavar="A..B", help="Seeds of the stated setting, without B.")
    ] = None,
    jobs: JOBS = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for rows.parquet; resumes.")
    ] = None,
    book: Annotated[
        Path | None, typer.Option("--book", metavar="DIR", help="Folder for one Markdown page per figure.")
    ] = None,
    web: Annotated[
        Path | None, typer.Option("--web", metavar="DIR", help="Writes the results book there, as web pages.")
    ] = None,
    power: Annotated[
        Power,
        typer.Option(
            help="Where the paper has too few runs to tell: no verdict unless ours exclude the claim, or none at all."
        ),
    ] = Power.excluded,
    with_stacks: Annotated[
        bool, typer.Option("--stacks", help="Also runs the papers' networks on Linux and on a Multipath QUIC stack.")
    ] = False,
    as_json: JSON = False,
) -> None:
    """Runs the experiments of papers and checks which of their numbers and claims hold."""
    from weftway import reproduce
    from weftway.reproduce import book as books
    from weftway.reproduce import page, stacks
    from weftway.reproduce import web as sites
    from weftway.runs import caveats
    from weftway.runs.store import try_writing
    from weftway.terminal.progress import Bar

    effort = reproduce.FULL if full else reproduce.QUICK
    if sensitivity is not None:
        effort = replace(effort, settings=sensitivity)
    if seeds is not None:
        effort = replace(effort, seeds=seeds)
    chosen = reproduce.find(experiments or [])
    for tried in filter(None, (book, web)):
        try_writing(tried)
    with interruptible(), redirect_stdout(sys.stderr), Bar(err) as bar:
        beside = [books.BESIDE] if book or web else []
        runs = reproduce.planned(chosen, effort, backend, beside)
        kept = reproduce.execute(runs, jobs, folder, bar.tell)
        measured = stacks.planned(chosen) if with_stacks else []
        reproduce.execute(measured, jobs, folder / "stacks" if folder else None, bar.tell)
        levels = stacks.levels(measured)
        results = reproduce.evaluate(chosen, runs, power=power.value, levels=levels)
    own = shlex.join(["./weft", *sys.argv[1:]])
    pages = books.pages(results, runs, books.options(effort, full, backend), levels, own) if book or web else {}
    begins = []
    for place, write in ((book, books.write), (web, sites.write)):
        if place:
            begins.append(write(pages, place))
    failed = [failure for run in (*runs, *measured) for failure in run.failed]
    print_notes(warnings=caveats.failures(failed))
    for line in stacks.skipped(measured):
        err.print(f"not on a real stack: {line}")
    for place in begins:
        err.print(f"the book begins in {place}")
    if as_json:
        print_json([*(result.record for result in results), *(level.record for level in levels)])
    else:
        print_tables([page.summary(results)])
        for table in page.details(results):
            out.print(table, "")
        print_tables([page.levels(levels)] if levels else [])
        if kept.sentence:
            out.print(kept.sentence)
        for line in page.reasons(results):
            err.print(f"cannot be decided: {line}")
    if failed:
        raise typer.Exit(RUN_FAILED)
