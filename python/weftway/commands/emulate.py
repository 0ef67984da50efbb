"""`weft emulate`."""

import shlex
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from weftway._native import CODE, ScenarioError
from weftway.terminal.exit_status import INTERRUPTED

from .options import JSON, SETS, scenarios
from .output import err, fail, print_json


def command(
    links: Annotated[
        str,
        typer.Argument(metavar="LINKS", help="A scenario file, or the name of one of ours.", autocompletion=scenarios),
    ],
    command: Annotated[list[str], typer.Argument(metavar="-- CMD…", help="The client's command.")],
    server: Annotated[
        str | None, typer.Option(metavar="CMD", help="Command at the other end, as 'iperf3 -s -1'; starts first.")
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", "--seeds", min=0, max=2**64 - 1, metavar="N", help="Seed of losses and jitter.")
    ] = 0,
    sets: SETS = None,
    log: Annotated[Path, typer.Option(metavar="FILE", help="The packet log: a line per packet.")] = Path("packets.csv"),
    no_log: Annotated[bool, typer.Option("--no-log", help="Writes no packet log.")] = False,
    pcap: Annotated[Path | None, typer.Option(metavar="DIR", help="Writes client.pcap and server.pcap.")] = None,
    view: Annotated[
        bool,
        typer.Option(
            "--view/--no-view", help="On a terminal: what goes over each link, in the lowest rows while CMD runs."
        ),
    ] = True,
    as_json: JSON = False,
) -> None:
    """Runs ordinary programs over emulated links. $WEFT_PEER is the other end's address.

    The exit status is that of CMD.
    """
    from weftway import scenario
    from weftway.links import emulate
    from weftway.links.links_view import LinksView
    from weftway.runs import plan

    loaded = scenario.load(scenario.locate(links), sets or [])
    variant = loaded.variants()[0]
    words = server_words(server)
    kept = None if no_log else log
    again = plan.quoted
    asked = [f"--set {again(setting)}" for setting in [*loaded.sets, *variant.sets]]
    asked += [f"--server {again(server)}"] if server else []
    provenance = [
        f"weft emulate: {loaded.title}",
        f"code {CODE}, scenario {loaded.path} ({variant.hash}), seed {seed}",
        " ".join(["weft emulate", again(loaded.path), *asked, f"--seed {seed} --", *map(again, command)]),
    ]
    lines = [line for text in provenance for line in text.splitlines()]
    shows = view and sys.stderr.isatty() and not err.is_dumb_terminal
    try:
        with LinksView(err) if shows else nullcontext() as shown:
            outcome = emulate.run(
                variant,
                command,
                words,
                seed=seed,
                log=kept,
                pcap=pcap,
                provenance=lines,
                quiet=as_json,
                watch=shown.tell if shown else None,
            )
    except KeyboardInterrupt:
        fail("interrupted; nothing is left behind", INTERRUPTED)
    if as_json:
        print_json([{"scenario": loaded.name, "scenario_hash": variant.hash, "seed": seed, "code": CODE, **outcome}])
    else:
        err.print(emulate.links(outcome))
        for line in emulate.punctuality(outcome):
            err.print(line)
    for line in emulate.server(outcome):
        err.print(line)
    if kept:
        err.print(f"packet log in {kept}")
    sys.exit(outcome["client"])


def server_words(server: str | None) -> list[str] | None:
    """Command that `--server` names, word by word."""
    if server is None:
        return None
    try:
        words = shlex.split(server)
    except ValueError as error:
        raise ScenarioError(f"--server {server}: {error}") from None
    return words
