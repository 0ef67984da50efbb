"""The examples in docstrings give what stands beneath them."""

import doctest
from importlib import import_module

import pytest

from weftway.scenario import HOME

MODULES = sorted(
    ".".join(file.relative_to(HOME / "python").with_suffix("").parts)
    for file in (HOME / "python/weftway").rglob("*.py")
    if file.name != "__init__.py" and ">>> " in file.read_text()
)
"""Modules with examples. Those of packages show a whole run in outline."""


@pytest.mark.parametrize("module", MODULES)
def test_an_example_gives_what_it_says(module: str) -> None:
    assert not doctest.testmod(import_module(module)).failed
