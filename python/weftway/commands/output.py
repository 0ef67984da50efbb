"""What all verbs print, and how the command ends."""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from rich.console import Console

RUN_FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130

out = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
err = Console(stderr=True, highlight=False, soft_wrap=True, width=None if sys.stderr.isatty() else 160)


def print_json(rows: list[dict[str, Any]]) -> None:
    """One array, a line per element."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    sys.stdout.write(f"[\n{lines}\n]\n" if rows else "[]\n")


def fail(message: str, status: int) -> NoReturn:
    """One message on standard error, and out."""
    err.print(f"weft: {message}", markup=False)
    sys.exit(status)


@contextmanager
def interruptible() -> Iterator[None]:
    """Ends the command where a comparison was interrupted."""
    from weftway.comparison import Interrupted

    try:
        yield
    except Interrupted as error:
        # What is finished is kept: an impatient second Ctrl-C has nothing left to stop.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        fail(str(error), INTERRUPTED)
