"""`weft relay`."""

from typing import Annotated

import typer

from weftway.exit_status import INTERRUPTED
from weftway.interrupts import ended_by_signals

from .config import CONFIG
from .options import WIRE_CC
from .output import fail
from .pair import IDENTITY
from .proxy import CC, SCHEDULER
from .recv import LISTEN, PATHS, other_end
from .watching import JSON_LINES, METRICS, watched


def command(
    listen: LISTEN = None,
    local: PATHS = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NET",
            help="A network that clients may reach though it is not public, for example 192.168.1.0/24. Repeatable.",
        ),
    ] = None,
    deny: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NET",
            help="A network that clients may not reach though it is public or allowed, for example this machine's "
            "neighbours. Repeatable.",
        ),
    ] = None,
    client: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME,]KEY=VALUE",
            help="How much the clients of each pairing line may have together, or those of this name: rate=50Mbit/s "
            "(each way), connections=200, memory=64MB, places=4 (connections to this relay); as in "
            "laptop,rate=10Mbit/s,connections=50. Repeatable.",
        ),
    ] = None,
    dns: Annotated[
        str | None,
        typer.Option(
            metavar="ADDR[:PORT]",
            help="The server of names that is asked for clients with `weft tunnel`. Default: that of this machine.",
        ),
    ] = None,
    scheduler: SCHEDULER = "min-rtt",
    cc: CC = WIRE_CC,
    identity: IDENTITY = None,
    metrics: METRICS = None,
    as_json: JSON_LINES = False,
    config: CONFIG = None,
) -> None:
    """Connects the programs of `weft proxy` on other machines to where they want to. Run it where the good link is.

    It needs no root. Whoever has this machine's pairing line may use it; by default it reaches public addresses only.
    """
    from weftway import transfer

    other = other_end(None, listen or str(transfer.PORT), None, identity, "--to")
    try:
        with ended_by_signals(), watched("relay", metrics, as_json) as program:
            transfer.relay_connections(
                other,
                allow=allow or [],
                deny=deny or [],
                clients=client or [],
                names=transfer.name_server(dns) if dns else None,
                paths=local or [],
                scheduler=scheduler,
                cc=cc,
                watch=program.tell,
                switch=program.schedulers,
            )
    except KeyboardInterrupt:
        fail("stopped relaying", INTERRUPTED)
