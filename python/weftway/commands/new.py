"""`weft new`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weftway._native import ScenarioError

from .output import out

if TYPE_CHECKING:
    from weftway.links.new_scenario import NewScenario


def command(
    kind: Annotated[str, typer.Argument(metavar="scheduler|scenario", help="What to create.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name: lower-case words joined by -.")],
    measurements: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[LINK=FILE|LINK.KEY=VALUE]...",
            help="With scenario: outputs of ping, iperf3 --json, irtt, nuttcp, SRT, a Starlink dish; pcap, Mahimahi.",
        ),
    ] = None,
    drive: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="With scenario: a drive, such as commute.down.csv. Repeatable, one a direction."
        ),
    ] = None,
    run: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="With --drive: which run, if the file has several.")
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(metavar="bulk|web|stream|voip|call", help="With scenario: the workload. Default: bulk."),
    ] = None,
) -> None:
    """Creates a scheduler in the source tree, or a scenario file from measurements of your links."""
    from weftway.commands import new_scheduler as new
    from weftway.scenario import source_tree

    if run is not None and not drive:
        raise ScenarioError("--run is the run of a drive: it goes with --drive FILE")
    if kind == "scenario" and drive:
        return scenario_of_drive(name, measurements or [], workload, drive, run)
    if kind == "scenario":
        return scenario(name, measurements or [], workload)
    if kind != "scheduler":
        raise ScenarioError(f"`weft new {kind}`: there is `weft new scheduler NAME` and `weft new scenario NAME`")
    if measurements or workload or drive:
        raise ScenarioError(f"`weft new scheduler {name}` takes nothing after the name")
    try:
        home = source_tree("`weft new scheduler`")
    except ScenarioError as error:
        raise ScenarioError(
            f"{error}. A rule in Python needs none: write a class with `select(self, cx)` into a file and name it, "
            "`weft compare wifi-lte --scheduler my_rules.py:MyRule`"
        ) from None
    for line in new.scheduler(name, home):
        out.print(line)
    return None


def scenario(name: str, measurements: list[str], workload: str | None) -> None:
    """Writes a scenario file, from files or by questions."""
    from weftway.links import new_scenario

    ask = (lambda text, default: str(typer.prompt(text, default or None))) if sys.stdin.isatty() else None
    if measurements:
        made = new_scenario.from_measurements(name, measurements, workload, ask)
    elif ask:
        made = new_scenario.from_answers(name, workload, ask)
    else:
        raise ScenarioError(
            f"`weft new scenario {name}` needs measurements of two or more links, as in\n"
            f"  weft new scenario {name} wifi-ping.txt wifi-iperf3.json lte-ping.txt lte-iperf3.json\n"
            "or a terminal, where it asks"
        )
    tell(made, "advise")


def scenario_of_drive(name: str, values: list[str], workload: str | None, drive: list[Path], run: int | None) -> None:
    """Writes a scenario file of links that were measured on one clock."""
    from weftway.links import new_drive_scenario

    tell(new_drive_scenario.from_drive(name, drive, run, workload, values), "compare")


def tell(made: "NewScenario", verb: str) -> None:
    """Tells what was written, and what to do with it."""
    from weftway.runs.plan import quoted

    out.print(f"wrote    {made.file}: {', '.join(made.links)}")
    assumed = "; ".join(made.assumed)
    out.print(f"assumed  {assumed}: the comments in the file say why", soft_wrap=True)
    out.print(f"next     weft {verb} {quoted(str(made.file))}", soft_wrap=True)
