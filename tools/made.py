"""Pages of the site that are not in git: the reference, the matrix, the board and the results book."""

from collections.abc import Callable

import board
import matrix
import reference
import results

INDEX = "reference/README.md"
"""The page in git that names them, each under a heading: links from pages in git lead there."""


WHOLE: dict[str, Callable[[], str]] = {"matrix.html": lambda: matrix.pages()[1], "board.html": board.text}
"""Pages that are made as HTML."""


def names() -> list[str]:
    """Path of each made page in the site's folder of pages."""
    return [*_texts(), *WHOLE]


def made() -> dict[str, str]:
    """Text of each made page, by its path."""
    return {**_texts(), **{name: text() for name, text in WHOLE.items()}}


def _texts() -> dict[str, str]:
    return {
        **{f"reference/{name}": text for name, text in reference.pages().items()},
        **{f"results/{name}": text for name, text in results.pages().items()},
    }


def targets(names: list[str]) -> dict[str, str]:
    """Made page under each heading of the index."""
    own = {name.removeprefix("reference/").removesuffix(".md"): name for name in names if name.startswith("reference/")}
    own = {heading: name for heading, name in own.items() if "/" not in heading}
    return {**own, "results": "results/README.md", "cells": "matrix.html", "board": "board.html"}
