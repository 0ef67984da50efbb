"""Pages and their parts by Jinja's templates, which escape every text that is put into them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from weftway.terminal.table import Table

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def templates() -> Environment:
    """Templates of this package. Jinja is loaded here, so that only commands that make a page wait for it."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader(__package__)
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.globals["known"] = known
    return made


def part(name: str, *values: Any, **named: Any) -> Markup:
    """A part of a page, by the name of its macro in `parts.html`."""
    made: Markup = getattr(templates().get_template("parts.html").module, name)(*values, **named)
    return made


def rendered(template: str, **values: Any) -> str:
    """A whole page."""
    return templates().get_template(template).render(values)


def table(content: Table, css: str = "cards", caption: str = "", **attributes: str) -> Markup:
    """A table in a box that scrolls; nothing without rows."""
    if not content.rows:
        return Markup()
    columns, _ = content.of("page")
    return part("table", columns, content.groups(), css, caption, attributes)


def known(name: str, equals: Sequence[str] = (), keep: bool = False) -> dict[str, str]:
    """The attributes by which the page finds, folds and sorts rows: all names that the row speaks for, and whether it
    stays in sight."""
    return {"data-name": " ".join([name, *equals]), **({"data-keep": ""} if keep else {})}
