"""All programs of this user that run, as `weft top` follows them."""

import time
from collections.abc import Sequence
from typing import Any

from weftway.status.local_socket import Reader, Request, running
from weftway.status.snapshot import Snapshot

LOOK_S = 1.0
"""So often it is looked whether another program has started."""
NOTE_S = 10.0
"""A note is shown for so long."""


class Programs:
    """Programs that run, with the last snapshot of each."""

    def __init__(self) -> None:
        self.readers: list[Reader] = []
        self._snapshots: dict[Reader, Snapshot] = {}
        self._notes: dict[Reader, tuple[float, list[str]]] = {}
        self._looked = float("-inf")

    def look(self) -> None:
        """Finds those that have started, now and then."""
        if time.monotonic() - self._looked >= LOOK_S:
            self._looked = time.monotonic()
            self.readers += running(tuple(reader.path for reader in self.readers))

    def read(self, ready: Sequence[Any]) -> None:
        """Takes what those of `ready` have told."""
        for reader in [reader for reader in self.readers if reader in ready]:
            try:
                snapshot = reader.read()
            except (EOFError, OSError):
                self._leave(reader)
                continue
            if snapshot is not None:
                self._snapshots[reader] = snapshot
                if snapshot["notes"]:
                    self._notes[reader] = (time.monotonic() + NOTE_S, snapshot["notes"][-1:])

    def snapshots(self) -> list[Snapshot]:
        """The last one of each, with what it told its user last, if that is not long ago."""
        shown = []
        for reader in self.readers:
            until, notes = self._notes.get(reader, (0.0, []))
            if reader in self._snapshots:
                shown.append({**self._snapshots[reader], "notes": notes if time.monotonic() < until else []})
        return shown

    def ask(self, pid: int, request: Request) -> None:
        """Asks the program with this number for something, if it runs still."""
        for reader in [reader for reader in self.readers if self._snapshots.get(reader, {}).get("pid") == pid]:
            try:
                reader.ask(request)
            except OSError:
                self._leave(reader)

    def close(self) -> None:
        for reader in self.readers:
            reader.close()

    def _leave(self, reader: Reader) -> None:
        reader.close()
        self.readers.remove(reader)
        self._snapshots.pop(reader, None)
        self._notes.pop(reader, None)
