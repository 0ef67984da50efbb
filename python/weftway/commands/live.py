"""What `weft compare` and `weft run` have for backend `live`."""

from typing import Annotated

import typer

PEER = Annotated[
    str | None,
    typer.Option(metavar="HOST[:PORT]", help="For backend live: the machine where weft recv --measure listens."),
]
PAIR = Annotated[
    str | None, typer.Option(metavar="LINE|FILE|-", help="What weft pair printed there, or WEFT_PAIR has it.")
]
PATHS = Annotated[
    list[str] | None,
    typer.Option("--path", metavar="IFACE|ADDR", help="A link of this machine, one for each path of the scenario."),
]


def meet(peer: str | None, pair: str | None, paths: list[str] | None) -> None:
    """Tells the backend where its transfers go."""
    from weftway import backends, transfer
    from weftway._native import ScenarioError
    from weftway.backends.live import Peer

    if peer is None:
        if pair or paths:
            raise ScenarioError("--pair and --path go with --peer HOST")
        backends.LIVE.peer = None
        return
    line = transfer.pairing(pair)
    if line is None:
        raise ScenarioError("--peer needs --pair LINE: `weft pair` prints it on the machine that listens")
    backends.LIVE.peer = Peer(transfer.connect(peer, line), tuple(paths or ()))
