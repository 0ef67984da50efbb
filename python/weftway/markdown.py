"""Tables in Markdown."""

from collections.abc import Sequence


def table(head: Sequence[str], lines: Sequence[Sequence[str]], *numbers: int) -> list[str]:
    """The lines of a table whose columns `numbers` are set to the right."""
    ends = ["---:" if at in numbers else "---" for at in range(len(head))]
    return [f"| {' | '.join(map(cell, line))} |" for line in (head, ends, *lines)]


def cell(text: str) -> str:
    """A text that stays in its cell."""
    return text.replace("|", "\\|")
