"""`weft proxy`."""

from pathlib import Path
from typing import Annotated

import typer

from weftway._native import ScenarioError
from weftway.exit_status import INTERRUPTED
from weftway.interrupts import ended_by_signals

from .config import CONFIG
from .options import WIRE_CC, controllers, schedulers
from .output import err, fail, out
from .recv import LINKS, PAIR, other_end
from .watching import JSON_LINES, METRICS, watched

SCHEDULER = Annotated[
    str,
    typer.Option(metavar="S", help="The scheduler of what this end sends: `weft list`.", autocompletion=schedulers),
]
CC = Annotated[
    str,
    typer.Option(
        metavar="C", help="The congestion controller of what this end sends: `weft list`.", autocompletion=controllers
    ),
]

TO = Annotated[str | None, typer.Option(metavar="HOST[:PORT]", help="Where `weft relay` listens.")]

CLASSES = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Rules that say which connections go first (docs/how-to/classes.md)."),
]

PORT = "127.0.0.1:1080"
"""Where programs connect to: the port of SOCKS."""


def command(
    to: TO = None,
    pair: PAIR = None,
    local: LINKS = None,
    listen: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[ADDR:]PORT|unix:PATH",
            help=f"Where programs connect to: a port, or a socket that only this user may open. Default: {PORT}. "
            "Repeatable.",
        ),
    ] = None,
    passwords: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Programs need a user and a password: a line USER:PASSWORD of this file, which nobody else may read.",
        ),
    ] = None,
    scheduler: SCHEDULER = "min-rtt",
    cc: CC = WIRE_CC,
    classes: CLASSES = None,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="[udp:]HOST:PORT[,dscp=EF]",
            help="Says of which class a connection there would be, and why. Starts nothing.",
        ),
    ] = None,
    metrics: METRICS = None,
    as_json: JSON_LINES = False,
    config: CONFIG = None,
) -> None:
    """Carries the connections of programs on this machine over several links at once, to a machine with `weft relay`.

    The port speaks SOCKS5 and HTTP CONNECT. A program is told of it, for example: curl -x socks5h://127.0.0.1:1080
    """
    from weftway import classes as rules
    from weftway import transfer

    text = rules.read(classes)
    if check is not None:
        for line in rules.explain(text, check):
            out.print(line, soft_wrap=True)
        return
    if to is None:
        raise ScenarioError("weft proxy needs --to HOST:PORT, where `weft relay` listens")
    other = other_end(to, None, pair, None, "--to")
    ports = [transfer.local_port(port) for port in listen or [PORT]]
    secrets = transfer.read_passwords(passwords)
    if secrets is None and (reached := [port for port in ports if transfer.is_open_to_others(port)]):
        err.print(f"programs of other machines may use {', '.join(reached)} too, without a password: see --passwords")
    try:
        with ended_by_signals(), watched("proxy", metrics, as_json) as program:
            transfer.relay_connections(
                other,
                ports=ports,
                passwords=secrets,
                classes=text,
                paths=local or [],
                scheduler=scheduler,
                cc=cc,
                watch=program.tell,
                switch=program.schedulers,
            )
    except KeyboardInterrupt:
        fail("stopped carrying connections", INTERRUPTED)
