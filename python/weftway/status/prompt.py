"""What is typed in `weft top` to switch a program's scheduler."""

import re
from collections.abc import Sequence

from weftway.status.snapshot import Snapshot

KEY = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1b|.", re.DOTALL)
"""One key in what a terminal sends: arrows and such are sequences that begin with ESC [."""

UP, DOWN, ESCAPE, TAB = "\x1b[A", "\x1b[B", "\x1b", "\t"
ENTER, BACK = ("\r", "\n"), ("\x7f", "\b")
LONGEST = 200


class Prompt:
    """A name that is being typed for one of several programs. Tab goes through the names that begin with it."""

    def __init__(self, names: Sequence[str]) -> None:
        self.text = ""
        self._names = names
        self._place = 0
        """Which program is meant; more than there are begins anew."""
        self._typed = ""
        """What was typed before Tab."""
        self._tab = -1

    def program(self, snapshots: Sequence[Snapshot]) -> Snapshot | None:
        """The one that is meant, of all that have a scheduler."""
        switchable = [snapshot for snapshot in snapshots if snapshot.get("scheduler")]
        return switchable[self._place % len(switchable)] if switchable else None

    def press(self, key: str) -> bool:
        """Takes a key. Whether the name is complete."""
        if key in ENTER:
            return bool(self.text.strip())
        if key in (UP, DOWN):
            self._place += 1 if key == DOWN else -1
        elif key == TAB:
            found = [name for name in self._names if name.startswith(self._typed)]
            if found:
                self._tab = (self._tab + 1) % len(found)
                self.text = found[self._tab]
        elif key in BACK:
            self._type(self.text[:-1])
        elif len(key) == 1 and key.isprintable():
            self._type(self.text + key)
        return False

    def _type(self, text: str) -> None:
        self.text = self._typed = text[:LONGEST]
        self._tab = -1
