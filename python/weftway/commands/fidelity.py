"""`weft fidelity`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from .options import JSON
from .output import err, interruptible, out, print_json


def command(
    cells: Annotated[int, typer.Option(min=1, metavar="N", help="Number of cells.")] = 20,
    seed: Annotated[int, typer.Option(metavar="S", help="Seed of the cells: equal seeds draw equal ones.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Number of threads. Default: all cores.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for all results; resumes. [fidelity-S]")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Measures how far the simulator and this machine's kernel differ, over random cells."""
    from weftway import fidelity
    from weftway.progress import Bar
    from weftway.store import Store

    request = fidelity.Request(cells=cells, seed=seed, folder=folder or Path(f"fidelity-{seed}"), jobs=jobs)
    with interruptible(), Bar(err) as bar:
        measured = fidelity.measure(request, progress=bar.tell)
    found = fidelity.differences(measured.runs)
    if as_json:
        print_json([one.record for one in found])
    else:
        for part in fidelity.tables(measured, found):
            out.print(part, "")
    if found:
        store = Store(request.folder)
        page = fidelity.write_report(measured, found, lambda job: decoded(store.timeline(job.key)))
        err.print(f"rows in {request.folder / 'rows.parquet'}, report in {page}", markup=False)


def decoded(text: str | None) -> dict[str, Any] | None:
    """A timeline as it was kept."""
    if text is None:
        return None
    timeline: dict[str, Any] = json.loads(text)
    return timeline
