"""The command `weft`, also as `python -m weftway`. Ctrl-C during its imports, which take longest, says nothing."""

import os
import signal
import sys

from weftway.terminal.exit_status import INTERRUPTED


def main() -> None:
    """Loads what the command needs, and runs it."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    from weftway import cli

    try:
        signal.signal(signal.SIGINT, handler)
        cli.main()
    except KeyboardInterrupt:
        # As the first or the last lines are written; the commands answer those that come between.
        sys.exit(INTERRUPTED)


def _end(*_: object) -> None:
    """Ends at once, since nothing has begun: an exception in the middle of an import would print its traceback."""
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
