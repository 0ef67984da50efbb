"""`weft reproduce`."""

import sys
from contextlib import redirect_stdout
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .options import BACKENDS, JSON
from .output import err, interruptible, out, print_json


class Power(StrEnum):
    excluded = "excluded"
    always = "always"


def command(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PAPER[/FIGURE]]…", help="lubna-2022, lubna-2022/table1; all if none."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full/--quick", help="The files' own seeds and 40 settings, or 5 seeds and few settings.")
    ] = False,
    sensitivity: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="So many settings of what the papers leave open.")
    ] = None,
    backend: Annotated[str, typer.Option(metavar="B", help=f"Where to run them: {BACKENDS}.")] = "sim",
    seeds: Annotated[
        str | None, typer.Option(metavar="A..B", help="Seeds of the stated setting; B is left out.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Threads; all cores if not given.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Keeps rows.parquet there; resumes.")
    ] = None,
    book: Annotated[
        Path | None, typer.Option("--book", metavar="DIR", help="Writes a page in Markdown per figure there.")
    ] = None,
    power: Annotated[
        Power,
        typer.Option(
            help="Where the paper has too few runs to tell: no verdict unless ours exclude the claim, or none at all."
        ),
    ] = Power.excluded,
    as_json: JSON = False,
) -> None:
    """Runs the experiments of papers, and says which of their numbers and claims hold."""
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
        results = reproduce.evaluate(found, runs, power=power.value)
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
