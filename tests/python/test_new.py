"""`weft new scheduler`: what it writes compiles, passes its vectors, and is in the registry."""

import re
from pathlib import Path

import pytest

import tree
from weftway import ScenarioError
from weftway.commands import new_scheduler as new


def test_the_result_compiles_and_passes(tmp_path: Path) -> None:
    lines = new.scheduler("two-thirds", tree.copy(tmp_path))
    assert len(lines) == 4
    # Not optimised: soon compiled, and the crate without the new scheduler stays compiled beside it.
    apart = "--config=profile.dev.package.weftway-sched.opt-level=0"
    done = tree.test(tmp_path, apart, "--test", "schedulers", "--", "vectors::")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "two-thirds         1 cases" in done.stdout


@pytest.mark.parametrize(
    "name", ["", "Two", "two_thirds", "2-thirds", "-two", "two--thirds", "../two", "min-rtt", "rr", "all"]
)
def test_a_name_that_cannot_be_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(ScenarioError):
        new.scheduler(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_keyword_of_rust_is_refused(tmp_path: Path) -> None:
    for name in ["match", "mod", "box", "self", "gen", "try", "yield"]:
        with pytest.raises(ScenarioError, match="keyword of Rust"):
            new.scheduler(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_type_that_the_template_uses_is_refused(tmp_path: Path) -> None:
    imports = re.findall(r"^use .*;$", new.RULE.template, re.MULTILINE)
    imported = {word for line in imports for word in re.findall(r"\b[A-Z]\w+", line)}
    assert {"Context", "Decision", "Scheduler", "Entry", "Input", "Provenance"} <= imported
    for kind in imported | {"Clone", "Ok"}:
        with pytest.raises(ScenarioError, match=f"its type would be `{kind}`"):
            new.scheduler(kind.lower(), tmp_path)
    assert not list(tmp_path.iterdir())
