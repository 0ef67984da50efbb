"""`weft fidelity`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from weftway._native import ScenarioError

from .options import JOBS, JSON, MOST
from .output import err, interruptible, json_text, out, print_json, write

KERNEL, QUIC, PICOQUIC, RECEIVER = "sim,kernel", "sim,quic", "sim,picoquic", "sim,quic-to-picoquic"
STACKS = (QUIC, PICOQUIC, RECEIVER)
CELLS = 20


def command(
    backend: Annotated[
        str,
        typer.Option(
            metavar="A,B",
            help="What is compared: `sim,kernel`; over our scenarios and the cells, `sim,quic` (Multipath QUIC of "
            "noq), `sim,picoquic`, or `sim,quic-to-picoquic`, with acknowledgements on the fastest path.",
        ),
    ] = KERNEL,
    failures: Annotated[
        bool, typer.Option("--failures", help="Cells in which a path fails, judged by the time of completion.")
    ] = False,
    messages: Annotated[
        bool, typer.Option("--messages", help="Cells of small messages, judged by their delays.")
    ] = False,
    paths: Annotated[
        int | None,
        typer.Option(min=1, max=8, metavar="N", help="Of how many paths all cells are. [one to four, drawn]"),
    ] = None,
    equal_shares: Annotated[
        bool, typer.Option("--equal-shares", help="Cells of one, two, three and four paths in turn, in equal shares.")
    ] = False,
    cells: Annotated[
        int | None,
        typer.Option(min=1, max=MOST, metavar="N", help="Number of cells. [20; 40 with --failures, the most there]"),
    ] = None,
    seed: Annotated[
        int,
        typer.Option("--seed", "--seeds", min=0, metavar="S", help="Seed of the cells: equal seeds draw equal ones."),
    ] = 0,
    jobs: JOBS = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Folder; resumes. [fidelity-S, fidelity-quic-S, fidelity-failures-S, …]",
        ),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Measures how far the simulator and this machine's kernel differ over random cells, or the simulator and QUIC."""
    both = ",".join(part.strip().lower() for part in backend.split(","))
    if both not in (KERNEL, *STACKS):
        raise ScenarioError(f"--backend {backend}: expected `{KERNEL}`, `{QUIC}`, `{PICOQUIC}` or `{RECEIVER}`")
    if failures and messages:
        raise ScenarioError("--failures and --messages are of different cells: name one of them")
    if (failures or messages) and both in STACKS:
        option = "--failures" if failures else "--messages"
        raise ScenarioError(f"{option} compares with the kernel: leave out --backend {backend}")
    if paths and (failures or messages or both in STACKS):
        raise ScenarioError(f"--paths {paths} is of the cells of goodput beside the kernel: leave out the other option")
    if equal_shares and (paths or failures or messages or both in STACKS):
        raise ScenarioError(
            "--equal-shares is of cells of one to four paths beside the kernel: leave out the other option"
        )
    if messages:
        of_messages(cells or CELLS, seed, jobs, folder or Path(f"fidelity-messages-{seed}"), as_json)
    elif failures:
        over_failures(cells, seed, jobs, folder or Path(f"fidelity-failures-{seed}"), as_json)
    elif both in STACKS:
        other = both.partition(",")[2]
        with_quic(other, cells or CELLS, seed, jobs, folder or Path(f"fidelity-{other}-{seed}"), as_json)
    else:
        named = f"{paths}-paths-{seed}" if paths else f"equal-shares-{seed}" if equal_shares else f"{seed}"
        folder = folder or Path(f"fidelity-{named}")
        with_kernel(cells or CELLS, paths, equal_shares, seed, jobs, folder, as_json)


def with_kernel(
    cells: int, paths: int | None, equal_shares: bool, seed: int, jobs: int | None, folder: Path, as_json: bool
) -> None:
    from weftway import fidelity
    from weftway.runs.store import Store
    from weftway.terminal.progress import Bar

    alike = fidelity.EQUAL_SHARES if equal_shares else fidelity.GOODPUT
    kind = fidelity.of_paths(paths) if paths else alike
    request = fidelity.Request(cells, seed, folder, jobs, kind)
    with interruptible(), Bar(err) as bar:
        measured = fidelity.measure(request, progress=bar.tell)
    differences = fidelity.differences(measured.runs)
    store = Store(request.folder)
    page = (
        fidelity.write_report(measured, differences, lambda job: decoded(store.timeline(job.key)))
        if differences
        else None
    )
    if as_json:
        print_json([difference.record for difference in differences])
        for line in fidelity.left_out(measured):
            err.print(line)
    else:
        for part in fidelity.tables(measured, differences):
            out.print(part, "")
    if page:
        err.print(f"rows in {request.folder / 'rows.parquet'}, report in {page}")


def over_failures(cells: int | None, seed: int, jobs: int | None, folder: Path, as_json: bool) -> None:
    from weftway import fidelity
    from weftway.fidelity import failures

    if cells is not None and cells > failures.CELLS:
        raise ScenarioError(
            f"--cells {cells}: there are {failures.CELLS} cells with a failure; another --seed has others"
        )
    request = fidelity.Request(cells or failures.CELLS, seed, folder, jobs, fidelity.FAILURES)
    judged(request, fidelity.judge, fidelity.completion_tables, as_json)


def of_messages(cells: int, seed: int, jobs: int | None, folder: Path, as_json: bool) -> None:
    from weftway import fidelity

    request = fidelity.Request(cells, seed, folder, jobs, fidelity.MESSAGES)
    judged(request, fidelity.delays, fidelity.delay_tables, as_json)


def judged(request: Any, judge: Callable[[Any], Any], tables: Callable[[Any, Any], Any], as_json: bool) -> None:
    """Measures cells that hold or do not, and prints which."""
    from weftway import fidelity
    from weftway.terminal.progress import Bar

    with interruptible(), Bar(err) as bar:
        measured = fidelity.measure(request, progress=bar.tell)
    judgements = judge(measured.runs)
    if as_json:
        print_json([judgement.record for judgement in judgements])
    else:
        for part in tables(measured, judgements):
            out.print(part, "")
    err.print(f"rows in {request.folder / 'rows.parquet'}")


def with_quic(other: str, cells: int, seed: int, jobs: int | None, folder: Path, as_json: bool) -> None:
    from weftway.fidelity import quic
    from weftway.terminal.progress import Bar

    with interruptible(), Bar(err) as bar:
        measured = quic.measure(quic.Request(cells, seed, folder, jobs, other), progress=bar.tell)
    agreement = quic.agreement(measured.settings, measured.rows, other)
    page = quic.write_report(measured, agreement) if agreement.cases else None
    if as_json:
        write(json_text({**agreement.record, "not_run": measured.skipped}, indent=1) + "\n")
    else:
        for part in quic.tables(measured, agreement):
            out.print(part, "")
    if page:
        err.print(f"rows in {folder / 'rows.parquet'}, report in {page}")


def decoded(text: str | None) -> dict[str, Any] | None:
    """A timeline as it was kept."""
    if text is None:
        return None
    timeline: dict[str, Any] = json.loads(text)
    return timeline
