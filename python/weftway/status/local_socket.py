"""A Unix socket on which a running program tells its snapshots, a line of JSON each, to this user's other programs.

They may ask it for something: each request is a line of JSON, too.
"""

import contextlib
import json
import os
import socket
import stat
import tempfile
from collections import ChainMap
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from weftway._native import ScenarioError
from weftway.status.snapshot import Snapshot

PATIENCE_S = 3.0
"""How long a reader waits for a line: one comes every second."""

MOST_READERS = 16

LONGEST_REQUEST = 4096
"""A reader that sends a longer line is left."""

HOUR_BYTES = 1 << 20
"""Room for the longest answer, an hour of all links and clients."""

Request = dict[str, Any]


def folder() -> Path:
    """Where the sockets are: in $XDG_RUNTIME_DIR, or in a folder of this user's in the one for temporary files."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime) / "weftway"
    return Path(tempfile.gettempdir()) / f"weftway-{os.getuid()}"


def folders() -> list[Path]:
    """Where sockets of this user's programs may be: of those it starts, and of services of the system."""
    return [folder(), *sorted(Path("/run").glob("weft*/weftway"))]


def _check_ours(place: Path) -> None:
    """Refuses a folder that somebody else may have made or may write to."""
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ScenarioError(f"{place} is no folder of this user's alone (mode 0700): remove it")


class LocalSocket:
    """The socket of this program. Nothing that a reader does holds the program up: one that does not read is left."""

    def __init__(self, program: str, hour: Callable[[], dict[str, Any]] = dict) -> None:
        """`hour` has what is told of the last hour to those that ask for it."""
        place = folder()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_ours(place)
        self.path = place / f"{program}-{os.getpid()}.sock"
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._readers: dict[socket.socket, bytes] = {}
        """Whoever reads, with what has come of its next request."""
        self._hour = hour
        self._want_hour: set[socket.socket] = set()
        # It has its name when it listens: whoever finds one that does not takes it for what a killed program left.
        unnamed = place / f".{program}-{os.getpid()}"
        unnamed.unlink(missing_ok=True)
        try:
            before = os.umask(0o177)
            try:
                self._listening.bind(str(unnamed))
            finally:
                os.umask(before)
            self._listening.listen()
            self._listening.setblocking(False)
            unnamed.rename(self.path)
        except BaseException:
            self.close()
            raise

    def tell(self, snapshot: Snapshot) -> None:
        """Sends a snapshot to all that read."""
        # Nobody is there; or this program has no descriptors left, which is no reason to end.
        with contextlib.suppress(OSError):
            while len(self._readers) < MOST_READERS:
                reader, _ = self._listening.accept()
                reader.setblocking(False)
                self._readers[reader] = b""
        if self._readers:
            line = json.dumps(snapshot).encode() + b"\n"
            for reader in set(self._readers) - self._want_hour:
                self._send(reader, line)
        if self._want_hour:
            line = json.dumps({**snapshot, "hour": self._hour()}).encode() + b"\n"
            for reader in list(self._want_hour):
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, HOUR_BYTES)
                self._send(reader, line)
            self._want_hour.clear()

    def requests(self) -> list[Request]:
        """What those that read have asked for since the last call. The last hour they get with the next snapshot."""
        return [request for reader in list(self._readers) for request in self._requests_of(reader)]

    def _requests_of(self, reader: socket.socket) -> list[Request]:
        try:
            part = reader.recv(LONGEST_REQUEST)
        except BlockingIOError:
            return []
        except OSError:
            part = b""
        *lines, rest = (self._readers[reader] + part).split(b"\n")
        self._readers[reader] = rest
        if not part or len(rest) > LONGEST_REQUEST:
            self._leave(reader)
        requests = [request for line in lines if (request := _request(line)) is not None]
        if reader in self._readers and any(request.get("hour") for request in requests):
            self._want_hour.add(reader)
        return requests

    def _send(self, reader: socket.socket, line: bytes) -> None:
        """Sends a line. A reader that is gone or does not take all of it is left."""
        with contextlib.suppress(OSError):
            if reader.send(line) == len(line):
                return
        self._leave(reader)

    def _leave(self, reader: socket.socket) -> None:
        reader.close()
        del self._readers[reader]
        self._want_hour.discard(reader)

    def close(self) -> None:
        for one in (self._listening, *self._readers):
            one.close()
        with contextlib.suppress(OSError):
            self.path.unlink()


def _request(line: bytes) -> Request | None:
    """A line as a request; none if it is no object of JSON."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return request if isinstance(request, dict) else None


class Reader:
    """Reads the snapshots of another program, and may ask it for something."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._rest = b""
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def read(self) -> Snapshot | None:
        """The latest snapshot that has come, if one has come whole. EOFError: the program has ended.

        It has the notes of all that have come, and the hour if one of them has it.
        """
        part = self._socket.recv(1 << 16)
        if not part:
            raise EOFError
        *lines, self._rest = (self._rest + part).split(b"\n")
        if not lines:
            return None
        snapshots: list[Snapshot] = [json.loads(line) for line in lines]
        latest = dict(ChainMap(*reversed(snapshots)))
        return {**latest, "notes": [note for one in snapshots for note in one["notes"]]}

    def ask(self, request: Request) -> None:
        """Asks the program for something. OSError: it has ended."""
        self._socket.sendall(json.dumps(request).encode() + b"\n")

    def close(self) -> None:
        self._socket.close()


def running(known: Collection[Path] = ()) -> list[Reader]:
    """Readers of all programs that run, but of those that are known. What a killed one left is removed."""
    found = []
    if folder().exists():
        _check_ours(folder())
    for path in [path for place in folders() for path in sorted(place.glob("*.sock")) if path not in known]:
        try:
            found.append(Reader(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except OSError:
            continue
    return found
