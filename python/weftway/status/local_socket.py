"""A Unix socket on which a running program tells its snapshots, a line of JSON each, to this user's other programs."""

import contextlib
import json
import os
import socket
import stat
import tempfile
from collections.abc import Collection
from pathlib import Path

from weftway._native import ScenarioError
from weftway.status.snapshot import Snapshot

PATIENCE_S = 3.0
"""How long a reader waits for a line: one comes every second."""

MOST_READERS = 16


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

    def __init__(self, program: str) -> None:
        place = folder()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_ours(place)
        self.path = place / f"{program}-{os.getpid()}.sock"
        with contextlib.suppress(FileNotFoundError):
            # Of a program that was killed and had the same number.
            self.path.unlink()
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._readers: list[socket.socket] = []
        try:
            before = os.umask(0o177)
            try:
                self._listening.bind(str(self.path))
            finally:
                os.umask(before)
            self._listening.listen()
            self._listening.setblocking(False)
        except BaseException:
            self.close()
            raise

    def tell(self, snapshot: Snapshot) -> None:
        """Sends a snapshot to all that read."""
        with contextlib.suppress(BlockingIOError):
            while len(self._readers) < MOST_READERS:
                reader, _ = self._listening.accept()
                reader.setblocking(False)
                self._readers.append(reader)
        if self._readers:
            line = json.dumps(snapshot).encode() + b"\n"
            self._readers = [reader for reader in self._readers if _is_sent(reader, line)]

    def close(self) -> None:
        for one in (self._listening, *self._readers):
            one.close()
        with contextlib.suppress(OSError):
            self.path.unlink()


def _is_sent(reader: socket.socket, line: bytes) -> bool:
    """Whether all of a line was taken. A reader that is gone or too slow is closed."""
    with contextlib.suppress(OSError):
        if reader.send(line) == len(line):
            return True
    reader.close()
    return False


class Reader:
    """Reads the snapshots of another program."""

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
        """The latest snapshot that has come, if one has come whole. EOFError: the program has ended."""
        part = self._socket.recv(1 << 16)
        if not part:
            raise EOFError
        *lines, self._rest = (self._rest + part).split(b"\n")
        if not lines:
            return None
        snapshot: Snapshot = json.loads(lines[-1])
        return snapshot

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
