"""`weft reproduce`."""

import sys
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from .options import BACKENDS, JSON
from .output import err, interruptible, out, print_json


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
        int | None, typer.Option(min=0, metavar="N", help="Number of settings for values that the papers do not give.")
    ] = None,
    backend: Annotated[str, typer.Option(metavar="B", help=f"Where to run them: {BACKENDS}.")] = "sim",
    seeds: Annotated[str | None, typer.Option(metavar="A..B", help="Seeds of the stated setting, without B.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Number of threads. Default: all cores.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for rows.parquet; resumes.")
    ] = None,
    book: Annotated[
        Path | None, typer.Option("--book", metavar="DIR", help="Folder for one Markdown page per figure.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Runs the experiments of papers and checks which of their numbers and claims hold."""
    from weftway import plan, reproduce, tables
    from weftway.progress import Bar
    from weftway.reproduce import book as pages
    from weftway.reproduce import page

    effort = reproduce.FULL if full else reproduce.QUICK
    if sensitivity is not None:
        effort = replace(effort, settings=sensitivity)
    if seeds is not None:
        effort = replace(effort, seeds=seeds)
    found = reproduce.find(experiments or [])
    with interruptible(), redirect_stdout(sys.stderr), Bar(err) as bar:
        runs = reproduce.planned(found, effort, backend)
        reproduce.execute(runs, jobs, folder, bar.tell)
        results = reproduce.evaluate(found, runs)
    if book:
        written = pages.write(results, book, " ".join(["weft", *map(plan.quoted, sys.argv[1:])]))
        err.print(f"pages in {written.parent}", markup=False)
    if as_json:
        print_json([one.record for one in results])
        return
    out.print(tables.fitted(page.summary(results), out), "")
    for table in page.details(results):
        out.print(table, "")
    for line in page.reasons(results):
        err.print(f"cannot be decided: {line}", markup=False)
