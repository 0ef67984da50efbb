"""This machine's identity, and the pairing lines with which others connect to it: one for all, one for each name."""

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from weftway import _native, reading
from weftway._native import ScenarioError, TransferError

EVERY_S = 1.0
"""How often it is looked whether a file has changed."""


def identity_file() -> Path:
    """Where this machine's identity is kept."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "weftway" / "identity.json"


def pair(file: Path, name: str | None = None, *, new: bool = False) -> str:
    """The line that the other end needs, or the client of this `name`. Makes what is missing, or a new identity."""
    check_available()
    if not new and file.exists():
        text = read_identity(file)
        if name is None or name in _native.pairing_names(text):
            return _native.pairing_line(text, name)

    def make(before: str | None) -> str:
        text = _native.new_identity() if new or before is None else before
        return text if name is None else _native.with_name(text, name)

    return _native.pairing_line(_change(file, make, read=not new), name)


def names(file: Path) -> list[str]:
    """The names of the clients that have lines of their own."""
    check_available()
    return _native.pairing_names(read_identity(file)) if file.exists() else []


def names_if_readable(file: Path) -> list[str]:
    """The same, where it does not matter why a file cannot be read: it is about to be replaced."""
    with suppress(OSError, ScenarioError):
        return names(file)
    return []


def revoke(file: Path, name: str) -> None:
    """The client of this name can no longer connect."""
    check_available()

    def remove(text: str | None) -> str:
        if text is None:
            raise ScenarioError(f"this machine has no identity yet, and so no names ({file})")
        return _native.without_name(text, name)

    _change(file, remove)


def check_available() -> None:
    if not hasattr(_native, "transfer"):
        raise TransferError(f"files are sent on Unix only; this is {sys.platform}")


def read_private(file: Path, what: str = "identity", renewed: str = "`weft pair --new`") -> str:
    """Reads what nobody else may read, and refuses it if somebody else may."""
    if file.is_dir():
        article = "an" if what[0] in "aeiou" else "a"
        raise ScenarioError(f"{file}: {article} {what} is a file, and this is a directory")
    mode = file.stat().st_mode & 0o777
    if mode & 0o077 and not _is_credential(file):
        raise ScenarioError(
            f"{file}: other users of this machine may read or change this {what} (mode {mode:04o}): "
            f"run `chmod 600 {shlex.quote(str(file))}`, and {renewed} if somebody may have read it"
        )
    return reading.text(file)


def read_identity(file: Path) -> str:
    """Reads an identity, and refuses what is none: a disk that was full or lost its power may have left half of it."""
    text = read_private(file)
    try:
        _native.pairing_names(text)
    except ScenarioError as error:
        raise ScenarioError(
            f"{file}: {error}: put a copy of it back, or make a new one with `weft pair --new` and copy its line to "
            "the other machines again"
        ) from None
    return text


def _is_credential(file: Path) -> bool:
    """Tells if systemd gives the file to this program alone, by an access list, which shows as rights of a group."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    return folder is not None and file.parent == Path(folder)


class Changes:
    """What becomes of an identity whose file others change."""

    def __init__(self, file: Path, text: str) -> None:
        self._file = file
        self._text = text
        self._seen: tuple[int, ...] | None = ()
        self._due = 0.0

    def __call__(self) -> str | None:
        """The new text, if there is one. An error is told once for each change of the file."""
        now = time.monotonic()
        if now < self._due:
            return None
        self._due = now + EVERY_S
        before, self._seen = self._seen, self._look()
        if self._seen == before:
            return None
        text = self._read()
        if text == self._text:
            return None
        self._text = text
        return text

    def _look(self) -> tuple[int, ...] | None:
        try:
            now = self._file.stat()
        except OSError:
            return None
        return now.st_ino, now.st_mtime_ns, now.st_size, now.st_mode

    def _read(self) -> str:
        try:
            return read_identity(self._file)
        except OSError as error:
            raise ScenarioError(f"{self._file}: {error.strerror}") from None


def _change(file: Path, change: Callable[[str | None], str], *, read: bool = True) -> str:
    """Replaces the text of `file` by what `change` makes of it, while nobody else does the same: the new text."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone(file.parent):
        before = read_identity(file) if read and file.exists() else None
        text = change(before)
        if text != before:
            _write_private(file, text)
    return text


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    # Windows has no such locks, and this module is imported there, too.
    from weftway.locks import lock

    opened = lock(folder)
    try:
        yield
    finally:
        os.close(opened)


def _write_private(file: Path, text: str) -> None:
    """Writes what nobody else may read, all of it or nothing."""
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(text)
            out.flush()
            # The name must not be there before the bytes, whenever the power fails.
            os.fsync(out.fileno())
        draft.replace(file)
    except OSError as error:
        draft.unlink(missing_ok=True)
        error.filename = str(file)
        raise
