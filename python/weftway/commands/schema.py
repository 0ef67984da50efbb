"""`weft schema`."""

import sys

from weftway import _native


def command() -> None:
    """Prints the JSON Schema of scenario files, for completion and checks in an editor."""
    sys.stdout.write(f"{_native.schema()}\n")
