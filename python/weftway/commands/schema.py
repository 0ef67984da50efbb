"""`weft schema`."""

import sys

from weftway import _native


def command() -> None:
    """Prints the JSON Schema of scenario files, with which an editor completes and checks them."""
    sys.stdout.write(f"{_native.schema()}\n")
