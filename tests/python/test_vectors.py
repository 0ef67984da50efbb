"""The vectors hold through the binding, too."""

from pathlib import Path

import pytest

from weftway import ScenarioError
from weftway._native import run_vectors
from weftway.scenario import HOME

KINDS = ("sched", "cc", "link")
FILES = [file for kind in KINDS for file in sorted(HOME.glob(f"vectors/{kind}/*.toml"))]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_the_vectors_hold(file: Path) -> None:
    assert run_vectors(file.parent.name, file.read_text()) > 0


def test_a_vector_that_does_not_hold_is_told() -> None:
    text = """
        scheduler = "min-rtt"
        [[case]]
        name   = "the slow path first"
        why    = "wrong: S has the larger srtt"
        paths  = [{ name = "F", srtt = "5 ms", cwnd = 1 }, { name = "S", srtt = "10 ms", cwnd = 1 }]
        expect = "S, F"
    """
    with pytest.raises(ScenarioError, match=r"the slow path first.*expected S"):
        run_vectors("sched", text)
