"""`weft board`."""

import shutil
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from weftway._native import ScenarioError
from weftway.terminal.exit_status import RUN_FAILED

from .options import JOBS, JSON, Verb, schedulers
from .output import err, interruptible, out, print_json, print_tables

app = typer.Typer(help="Enters schedulers on the board, and verifies entries.", no_args_is_help=True)

EDITION = Annotated[
    str | None, typer.Option(metavar="EDITION", help="An edition that comes with Weftway, or its file.")
]
SEALED = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Also runs sealed sets: those that lie in DIR under their names.")
]
ENTRY_HELP = "A scheduler's name, my_rules.py:MyRule, a .safetensors file, or one-path."


@app.command("run", cls=Verb)
def run(
    edition: Annotated[str, typer.Option(metavar="EDITION", help="An edition that comes with Weftway, or its file.")],
    entry: Annotated[str, typer.Option(metavar="S", help=ENTRY_HELP, autocompletion=schedulers)],
    file: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Result file. Default: NAME.json here.")
    ] = None,
    sealed: SEALED = None,
    jobs: JOBS = None,
    as_json: JSON = False,
) -> None:
    """Runs an entry in an edition, and writes its file; resumes."""
    from weftway.board import edition as editions
    from weftway.board import entries, judgement, page, runs
    from weftway.board.result import ONE_PATH
    from weftway.terminal.progress import Bar

    loaded = editions.load(edition)
    result = runs.entry(entry)
    place = file or Path(result.file_name)
    if place.is_dir():
        raise ScenarioError(f"--out {place}: a folder, where a file is expected, such as {place / result.file_name}")
    rows = place.with_name(f"{place.name}.rows")
    closed = loaded.unsealed(sealed) if sealed else {}
    # What a scheduler in Python prints is no result.
    with interruptible(), redirect_stdout(sys.stderr), Bar(err) as bar:
        drawn = loaded.drawn(rows)
        ran = runs.run(loaded, entry, drawn, closed, jobs, rows, bar.tell)
    floor = None if ran.kind == ONE_PATH else entries.floor(loaded)
    ran = judgement.finished(ran, drawn, floor)
    ran.write(place)
    # The file says all that the folder was kept for.
    shutil.rmtree(rows, ignore_errors=True)
    if as_json:
        print_json([dict(ran.figures)])
    elif ran.kind == ONE_PATH:
        out.print(f"one path, same handshake: {loaded.cells} cells")
    else:
        others = [one for one in entries.of(loaded) if one.entry != ran.entry]
        shown = judgement.judged(loaded, drawn, [*others, ran], floor)
        out.print("\n".join(page.findings(loaded, shown, ran)), "", sep="\n")
        print_tables([page.standings(loaded, shown, [*others, ran], [ran.entry])])
    for reason in ran.skipped:
        err.print(f"skipped: {reason}")
    err.print(f"result in {place}")


@app.command("verify", cls=Verb)
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A result file.")],
    entry: Annotated[
        str | None,
        typer.Option(metavar="S", help="The class or policy file, if it lies elsewhere.", autocompletion=schedulers),
    ] = None,
    edition: EDITION = None,
    sample: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Number of lines that are run again. Default: 20.")
    ] = None,
    draw: Annotated[int, typer.Option(min=0, metavar="S", help="Another number draws another sample.")] = 0,
    sealed: SEALED = None,
    jobs: JOBS = None,
) -> None:
    """Repeats a sample of a file's lines; checks the rest. Status 1: something differs."""
    from weftway.board import edition as editions
    from weftway.board import verification

    with interruptible(), redirect_stdout(sys.stderr):
        loaded = editions.load(edition) if edition else None
        found = verification.verify(file, entry, loaded, sample, draw, sealed, jobs)
    for note in found.notes:
        err.print(f"note: {note}")
    for difference in found.differences:
        out.print(difference, soft_wrap=True)
    out.print(found.sentence, soft_wrap=True)
    if found.differences:
        raise typer.Exit(RUN_FAILED)


@app.command("seal", cls=Verb)
def seal(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of scenario files.")],
    edition: Annotated[
        str, typer.Option(metavar="EDITION", help="The edition that will name it: its seeds count too.")
    ],
) -> None:
    """Prints how an edition names a sealed set."""
    from weftway.board import edition as editions

    if not folder.is_dir():
        raise ScenarioError(f"{folder}: a folder of scenario files is expected")
    name = folder.resolve().name
    digest = editions.digest_of({name: editions.sealed_cells(folder)}, editions.load(edition).seeds)
    out.print(f'[[sealed]]\nname   = "{name}"\ndigest = "{digest}"', soft_wrap=True)
