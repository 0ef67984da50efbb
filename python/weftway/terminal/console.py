"""Consoles that print what they are given: no name of a file or scheduler is read as markup or as an emoji."""

import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment

_BLANKS = re.compile(r" +$", re.MULTILINE)
"""Blanks that rich pads the lines of a table with."""


class PlainConsole(Console):
    """Rich's console, without `[red]` for a colour and `:rocket:` for a picture. Its options are those of `Console`."""

    def __init__(self, **options: Any) -> None:
        # In a notebook, rich would show by itself what is written to a text of ours.
        super().__init__(markup=False, emoji=False, force_jupyter=False, **options)

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        text = super()._render_buffer(buffer)
        return text if self.is_terminal else _BLANKS.sub("", text)

    def _write_buffer(self) -> None:
        try:
            super()._write_buffer()
        except KeyboardInterrupt:
            # It may be written already, and rich would write it again before the next line.
            self._buffer.clear()
            raise
