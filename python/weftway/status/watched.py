"""A running program, and all that are told of it."""

import json
import sys
from contextlib import ExitStack
from typing import Protocol

from rich.console import Console

from weftway._native import ScenarioError
from weftway.queued_output import QueuedOutput, beside_traffic, dropped_lines
from weftway.status.hour import Hour
from weftway.status.local_socket import LocalSocket
from weftway.status.service_manager import ServiceManager
from weftway.status.snapshot import Snapshot, Snapshots
from weftway.transfer import Display, Progress, split_listening

MOST_SWITCHES = 8
"""So many schedulers take over at most each time that the program looks."""


MOST_NOTES = 100
"""Notes that are kept, the latest, for a reader of JSON that does not read on."""


class Listener(Protocol):
    """Somebody who is told of each snapshot."""

    def tell(self, snapshot: Snapshot) -> None: ...
    def close(self) -> None: ...


class Lines:
    """Snapshots as lines of JSON on standard output. Where nobody reads, the last is kept, with the notes of all."""

    def __init__(self) -> None:
        self._kept: Snapshot | None = None

    def tell(self, snapshot: Snapshot) -> None:
        if self._kept:
            snapshot = {**snapshot, "notes": [*self._kept["notes"], *snapshot["notes"]][-MOST_NOTES:]}
        line = json.dumps(snapshot) + "\n"
        if isinstance(sys.stdout, QueuedOutput):
            self._kept = None if sys.stdout.write_if_free(line) else snapshot
        else:
            sys.stdout.write(line)

    def close(self) -> None:
        if self._kept:
            sys.stdout.write(json.dumps(self._kept) + "\n")


class Watched:
    """A program named `program`: its user sees what is going on, and so do `weft top`, Prometheus and systemd.

    With `as_json` standard output has its snapshots; `metrics` is where Prometheus may ask: a port, or an address and a
    port. While this is open, nobody who does not read what is printed holds the program up.
    """

    def __init__(self, program: str, console: Console, *, as_json: bool = False, metrics: str | None = None) -> None:
        self._display = Display(console)
        self._snapshots = Snapshots(program, dropped_lines)
        self._manager = ServiceManager()
        hour = Hour()
        self._listeners: list[Listener] = [self._manager, hour]
        self._open = ExitStack()
        with self._open:
            self._open.enter_context(beside_traffic())
            self._open.callback(self._manager.close)
            self._open.enter_context(self._display)
            if metrics is not None:
                self._add(_metrics(metrics, console))
            if as_json:
                self._add(Lines())
            self._socket: LocalSocket | None = None
            try:
                self._socket = LocalSocket(program, hour.told)
                self._add(self._socket)
            except (OSError, ScenarioError) as error:
                # Nobody needs it to carry anything.
                console.print(f"weft top will not show this program: {error}")
            self._open = self._open.pop_all()

    def tell(self, progress: Progress) -> None:
        """Called ten times a second."""
        self._display.tell(progress)
        self._manager.alive()
        snapshot = self._snapshots(progress)
        if snapshot is not None:
            for listener in self._listeners:
                listener.tell(snapshot)

    def schedulers(self) -> list[str]:
        """The names of schedulers that are to take over, as `weft top` was told: looked at ten times a second."""
        asked = [request.get("scheduler") for request in (self._socket.requests() if self._socket else [])]
        return [name for name in asked if isinstance(name, str)][:MOST_SWITCHES]

    def _add(self, listener: Listener) -> None:
        self._open.callback(listener.close)
        self._listeners.append(listener)

    def __enter__(self) -> "Watched":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


def place_of_metrics(text: str) -> tuple[str, int]:
    """The address and port that `--metrics` names."""
    from weftway.status.metrics import PORT

    host, port = split_listening(text, default=PORT)
    return host or "127.0.0.1", port


def _metrics(text: str, console: Console) -> Listener:
    from weftway.status.metrics import Metrics

    served = Metrics(*place_of_metrics(text))
    console.print(f"metrics at {served.address}")
    return served
