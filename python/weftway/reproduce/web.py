"""The results book as web pages: its Markdown, rendered, with the drawings beside."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from markdown_it import MarkdownIt
from markupsafe import Markup

from weftway.report.html import rendered
from weftway.runs.store import whole


def write(pages: Mapping[str, str], folder: Path) -> Path:
    """Writes every page as HTML and every drawing as it is; returns the first page."""
    for name, text in pages.items():
        drawn = name.endswith(".svg")
        file = folder / (name if drawn else _html_name(name))
        with whole(file) as half:
            half.write_text(text if drawn else page(text), encoding="utf-8")
    return folder / "index.html"


def page(markdown: str) -> str:
    """Page of the book. Tables and drawings that are wider than the screen scroll by themselves."""
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)
    body = re.sub(r'href="([^":]+\.md)"', lambda link: f'href="{_html_name(link[1])}"', body)
    body = body.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")
    body = re.sub(r"<p>(<img [^>]*>)</p>", r'<div class="wide">\1</div>', body)
    heading = re.search(r"^# (.*)$", markdown, re.MULTILINE)
    return rendered("book.html", title=heading[1] if heading else "Results", body=Markup(body))


def _html_name(name: str) -> str:
    return re.sub(r"README\.md$", "index.md", name).removesuffix(".md") + ".html"
