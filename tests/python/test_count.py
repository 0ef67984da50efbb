"""Limits on what a maintainer has to carry, by `tools/count.py`; and that it counts what it says."""

import re

import pytest

import count


@pytest.fixture(scope="module")
def figures() -> count.Figures:
    return count.count()


def test_doc_lines_begin_with_their_noun_or_verb(figures: count.Figures) -> None:
    assert max(figures.shares().values()) <= 0.08, figures.places[:20]


def test_markdown_and_decisions_are_within_their_limits(figures: count.Figures) -> None:
    assert figures.markdown_words <= 70_000
    assert figures.decisions <= 20


def test_sentences_of_pages_for_newcomers_are_short() -> None:
    long, total = count.long_sentences(count.newcomers())
    assert len(long) <= 0.05 * total, long


@pytest.mark.parametrize("folder", ["", "start", "how-to", "reference", "explanation", "decisions"])
def test_a_page_takes_no_more_than_ten_minutes_to_read(folder: str) -> None:
    words = {page.name: len(page.read_text().split()) for page in (count.ROOT / "docs" / folder).glob("*.md")}
    assert words and {name: many for name, many in words.items() if many > 1500} == {}


def test_sentences_are_those_of_prose() -> None:
    prose = "# A title\n\nOne here. Two, as `a.b` says:\n\n```sh\nno sentence. None.\n```\n"
    page = f"{prose}- three [of](x.md#a.b)\n\n| a | b |\n|---|---|\n| c. D | e |\n"
    assert count.sentences(page) == ["One here.", "Two, as `a.b` says:", "three [of]", "a", "b", "c.", "D", "e"]


def test_modules_of_tests_are_not_counted() -> None:
    text = "fn one() {}\n#[cfg(test)]\nmod tests {\n    fn two() {}\n}\n#[cfg(test)]\nmod more;\nfn three() {}\n"
    assert count.without_tests(text) == ["fn one() {}", "fn three() {}"]


def test_doc_lines_are_found_in_rust_and_in_python() -> None:
    rust = ["//! Whole file.", "//! More of it.", "/// What it is.", "/// More.", "fn one() {}", "//// Nothing."]
    assert count.rust_docs(rust) == [(1, "Whole file."), (3, "What it is.")]
    assert count.python_docs('"""Module."""\n\n\ndef one():\n    """Whether."""\n') == [(1, "Module."), (5, "Whether.")]


@pytest.mark.parametrize(
    ("line", "is_without"),
    [
        ("Whether it is", True),
        ("`That`, a name", True),
        ("The same again", True),
        ("The sum", False),
        ("Off-path", False),
    ],
)
def test_a_line_without_its_noun_is_told_by_its_first_word(line: str, is_without: bool) -> None:
    assert bool(re.match(count.NOUNLESS, line)) is is_without
