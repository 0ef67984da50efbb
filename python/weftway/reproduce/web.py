"""The results book as web pages: its Markdown, rendered, with the drawings beside."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt

from weftway.run.store import whole

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fdfdfb; --ink: #1c2126; --soft: #59626b; --rule: #dfe2e0; --accent: #1f5f8b; --code: #f1f2ef;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171a; --ink: #e7e9ea; --soft: #a2abb3; --rule: #31373d; --accent: #86bfe8; --code: #20252a;
  }
}
* { box-sizing: border-box }
body {
  margin: 0 auto; padding: 1.5rem 1.25rem 4rem; max-width: 76rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; font-variant-numeric: tabular-nums;
}
a { color: var(--accent); text-underline-offset: .15em }
h1 { margin: .2rem 0 .9rem; font-size: clamp(1.4rem, 1.1rem + 1.4vw, 2rem); line-height: 1.2 }
h2 { margin: 2.2rem 0 .4rem; font-size: 1.3rem }
p, li { max-width: 78ch; overflow-wrap: anywhere }
code { font-size: .875em; background: var(--code); padding: .1em .3em; border-radius: 4px }
pre { overflow-x: auto; padding: .6rem .8rem; background: var(--code); border-radius: 6px }
pre code { padding: 0; background: none }
.wide { overflow-x: auto; margin: .75rem 0 }
.wide img { display: block; width: 46rem; min-width: 34rem; max-width: 100%; height: auto }
table { border-collapse: collapse; font-size: .875rem }
th, td { padding: .3rem .7rem .3rem 0; min-width: 3.5rem; text-align: left; vertical-align: top }
th, td { border-bottom: 1px solid var(--rule) }
[style*="right"] { text-align: right; white-space: nowrap }
td strong { white-space: nowrap }
@media (max-width: 700px) { .wide table { min-width: 46rem } }
th { color: var(--soft); font-weight: 600 }
"""


def write(pages: Mapping[str, str], folder: Path) -> Path:
    """Writes every page as HTML and every drawing as it is; returns the first page."""
    for name, text in pages.items():
        drawn = name.endswith(".svg")
        file = folder / (name if drawn else _html_name(name))
        with whole(file) as half:
            half.write_text(text if drawn else page(text), encoding="utf-8")
    return folder / "index.html"


def page(markdown: str) -> str:
    """One page. Tables and drawings that are wider than the screen scroll by themselves."""
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)
    body = re.sub(r'href="([^":]+\.md)"', lambda link: f'href="{_html_name(link[1])}"', body)
    body = body.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")
    body = re.sub(r"<p>(<img [^>]*>)</p>", r'<div class="wide">\1</div>', body)
    heading = re.search(r"^# (.*)$", markdown, re.MULTILINE)
    title = escape(heading[1]) if heading else "Results"
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n<body>\n{body}</body>\n</html>\n"
    )


def _html_name(name: str) -> str:
    return re.sub(r"README\.md$", "index.md", name).removesuffix(".md") + ".html"
