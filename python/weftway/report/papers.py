"""Which paper to cite for a scheduler or a controller: the entries of `papers.bib`."""

import re
from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_name("papers.bib")
_DESCRIBES = re.compile(r"^  weftway += \{(?P<names>[^}]*)\},\n", re.MULTILINE)


@cache
def _entries() -> list[tuple[frozenset[str], str]]:
    """Each entry with the names that it describes; our own field is left out of the text."""
    entries = []
    for text in re.findall(r"^@.*?^\}\n", _FILE.read_text(), re.MULTILINE | re.DOTALL):
        names = _DESCRIBES.search(text)
        entries.append((frozenset(names["names"].split(", ")) if names else frozenset(), _DESCRIBES.sub("", text)))
    return entries


def described() -> set[str]:
    """Every scheduler and controller that has an entry."""
    return {name for names, _ in _entries() for name in names}


def bibtex(name: str) -> list[str]:
    """The BibTeX entries for one of our schedulers or controllers, by its own name."""
    return [text for names, text in _entries() if name in names]
