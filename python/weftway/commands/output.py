"""Output of all verbs, and the end of the command."""

import codecs
import io
import json
import os
import signal
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

from weftway.terminal.console import PlainConsole
from weftway.terminal.exit_status import INTERRUPTED

if TYPE_CHECKING:
    from weftway.terminal.table import Table

CLOSED = 141
"""Exit status that a shell gives a command that a closed pipe ended."""

NEAREST = {"−": "-", "–": "-", "—": "-", "…": "...", "→": "->", "≤": "<=", "≥": ">=", "≈": "~", "±": "+-", "·": "*"}
"""Replacements for characters that a terminal's encoding lacks, where the letter without its accent is no answer."""


class ClosedPipe(Exception):
    """Nobody reads on: `weft list | head`."""


class Screen(PlainConsole):
    """A console that leaves it to `weftway.cli` how a command ends whose output nobody reads."""

    def on_broken_pipe(self) -> None:
        raise ClosedPipe


out = Screen(highlight=False, width=None if sys.stdout.isatty() else 160)
err = Screen(stderr=True, highlight=False, soft_wrap=True, width=None if sys.stderr.isatty() else 160)


def nearest(error: UnicodeError) -> tuple[str, int]:
    """The nearest characters that the encoding has, for those that it lacks."""
    assert isinstance(error, UnicodeEncodeError)
    return "".join(
        _nearest(character, error.encoding) for character in error.object[error.start : error.end]
    ), error.end


def _nearest(character: str, encoding: str) -> str:
    plain = NEAREST.get(character) or unicodedata.normalize("NFKD", character)
    encodable = plain.encode(encoding, "ignore").decode(encoding)
    if encodable:
        return encodable
    return " " if character.isspace() else "?"


def write_nearest() -> None:
    """Lets standard output and error have the nearest characters where their encoding lacks one."""
    codecs.register_error("nearest", nearest)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not _is_unicode(stream):
            stream.reconfigure(errors="nearest")


def _is_unicode(stream: Any) -> bool:
    return (stream.encoding or "").lower().startswith("utf")


def print_tables(tables: Iterable["Table"]) -> None:
    """Prints tables, each without the last columns for which the terminal is too narrow."""
    for table in tables:
        out.print(table.fitted(out), "")


def print_notes(skipped: Iterable[str] = (), warnings: Iterable[str] = ()) -> None:
    """Tells on standard error what was left out, and what to be aware of."""
    for kind, lines in (("skipped", skipped), ("warning", warnings)):
        for line in lines:
            err.print(f"{kind}: {line}")


def print_json(rows: Sequence[dict[str, Any]]) -> None:
    """Prints one array, a line per element."""
    lines = ",\n".join(map(json_text, rows))
    write(f"[\n{lines}\n]\n" if rows else "[]\n")


def write(text: str) -> None:
    """Writes to standard output as it is."""
    try:
        sys.stdout.write(text)
    except BrokenPipeError:
        raise ClosedPipe from None


def json_text(value: Any, indent: int | None = None) -> str:
    """A value as JSON for standard output, which loses nothing in any encoding."""
    return json.dumps(value, ensure_ascii=not _is_unicode(sys.stdout), indent=indent)


def discard_output() -> None:
    """Nobody reads standard output any more: what is left goes nowhere."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(message: str, status: int) -> NoReturn:
    """Tells one message on standard error, and ends the command."""
    err.print(f"weft: {message}")
    sys.exit(status)


@contextmanager
def interruptible() -> Iterator[None]:
    """Ends the command where a comparison was interrupted."""
    from weftway.runs.runner import Interrupted

    try:
        yield
    except Interrupted as error:
        # Finished runs are kept: an impatient second Ctrl-C has nothing left to stop.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        fail(str(error), INTERRUPTED)
