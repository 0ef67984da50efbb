"""`weft rank`."""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from weftway.terminal.exit_status import RUN_FAILED

from .options import JOBS, JSON, MOST, SETS, WINDOWS, controllers, packets, schedulers, worlds
from .output import err, interruptible, out, print_json, print_notes, print_tables


def command(
    on: Annotated[
        list[str],
        typer.Option(
            metavar="WORLD",
            help="A distribution, a scenario, or a folder of scenarios. Repeatable.",
            autocompletion=worlds,
        ),
    ] = ["world"],  # noqa: B006  # read, never changed
    cells: Annotated[
        int | None,
        typer.Option(min=1, max=MOST, metavar="N", help="Number of cells of a distribution (200) or a folder (all)."),
    ] = None,
    seeds: Annotated[str, typer.Option(metavar="A..B", help="Seeds of every run, without B.")] = "0..10",
    seed: Annotated[int, typer.Option(min=0, metavar="S", help="Seed of the cells: equal seeds draw equal ones.")] = 1,
    schedulers: Annotated[
        str,
        typer.Option(
            "--schedulers",
            "--scheduler",
            metavar="S,…|all",
            help="Schedulers to rank.",
            autocompletion=schedulers,
        ),
    ] = "all",
    candidate: Annotated[
        str | None,
        typer.Option(metavar="S", help="Held against the best of the others per scenario.", autocompletion=schedulers),
    ] = None,
    not_among_others: Annotated[
        str,
        typer.Option(
            metavar="S,…",
            help="Ranked, but never the best other; a name without switches means all its variants.",
            autocompletion=schedulers,
        ),
    ] = "",
    clairvoyant: Annotated[
        bool,
        typer.Option("--clairvoyant", help="Also runs the candidate with sight of the future: seconds for each run."),
    ] = False,
    oracle: Annotated[
        bool,
        typer.Option("--oracle", help="Also runs earliest-delivery with perfect estimates of when packets arrive."),
    ] = False,
    oracle_cc: Annotated[
        bool,
        typer.Option("--oracle-cc", help="Also runs earliest-delivery under windows that follow the links."),
    ] = False,
    cc: Annotated[
        str,
        typer.Option(metavar="CC,…", help="Also runs earliest-delivery under these.", autocompletion=controllers),
    ] = "",
    windows: WINDOWS = "",
    split: Annotated[str, typer.Option(metavar="SPLIT", help="held-out, or train: the cells for tuning.")] = "held-out",
    sets: SETS = None,
    jobs: JOBS = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", "--report", metavar="DIR", help="Folder for rows, cells and report.html; resumes."),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Ranks schedulers over many cells, against the best other scheduler per scenario."""
    from weftway import rank
    from weftway.rank import page, ranking
    from weftway.rank.so_far import SoFar
    from weftway.runs import caveats
    from weftway.runs.runner import quiet
    from weftway.terminal.progress import Bar

    request = rank.Request(
        on,
        cells,
        seeds,
        seed,
        schedulers,
        candidate,
        split,
        sets or [],
        clairvoyant,
        oracle,
        not_among_others,
        oracle_cc,
        cc,
        packets(windows),
    )
    # What a scheduler in Python prints is no result.
    so_far = SoFar()
    with interruptible(), redirect_stdout(sys.stderr), Bar(err, above=so_far.table) as bar:
        found = rank.run(request, jobs, folder, bar.tell, so_far.add if err.is_terminal else quiet)
    shown = page.ranked(found)
    written = page.write(found, shown, folder) if folder else None
    print_notes(found.skipped, caveats.failures(found.failed))
    if as_json:
        print_json(ranking.records(shown))
    else:
        out.print("\n".join(ranking.findings(shown)), "", sep="\n")
        print_tables(ranking.terminal(shown))
        if shown.others:
            out.print(shown.others)
    if folder:
        err.print(f"rows in {folder / 'rows.parquet'}, report in {written}")
    if found.failed:
        raise typer.Exit(RUN_FAILED)
