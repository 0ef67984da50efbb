"""`weft schema`."""

from weftway import _native

from .output import write


def command() -> None:
    """Prints the JSON Schema of scenario files, for completion and checks in an editor."""
    write(f"{_native.schema()}\n")
