"""Tables in Markdown."""

from collections.abc import Sequence

from weftway.terminal.table import Column, Table, Value, plain


def lines(content: Table) -> list[str]:
    """The lines of a table. What is marked stands out."""
    columns, rows = content.of("page")
    heads = [[column.label for column in columns], ["---:" if column.right else "---" for column in columns]]
    cells = [[f"**{value.shown}**" if value.mark else value.shown for value in values] for _, values in rows]
    return [f"| {' | '.join(map(cell, line))} |" for line in (*heads, *cells)]


def table(head: Sequence[str], rows: Sequence[Sequence[str | Value]], *numbers: int) -> list[str]:
    """The lines of a table whose columns `numbers` are set to the right."""
    return lines(plain(None, [Column(text, right=at in numbers) for at, text in enumerate(head)], rows))


def cell(text: str) -> str:
    """A text that stays in its cell."""
    return text.replace("|", "\\|")
