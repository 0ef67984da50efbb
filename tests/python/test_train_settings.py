"""The settings of every trainer: what they may be, what `--quick` leaves alone, and what their docstrings count."""

import re
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

pytest.importorskip("jax", reason="training needs weftway[train]")
pytest.importorskip("equinox", reason="training needs weftway[train]")

from weftway import ScenarioError, cli
from weftway.learn.train import ALGORITHMS, command, dqn, evolved, falcon, limits, pdaa3c, stsgat, study
from weftway.learn.train.limits import SettingError
from weftway.terminal import exit_status
from weftway.terminal.progress import Bar

ARGS = {name: command.module(name).Args for name in ALGORITHMS}

UNLIMITED = {"distribution", "out"}
"""Names of files: whoever reads them says what is wrong with them."""


def beyond(limit: Any) -> list[Any]:
    """Values that a limit does not allow, next to those that it does."""
    match limit:
        case limits.Whole(least, most):
            return [least - 1, least + 0.5, str(least), True, *([] if most is None else [most + 1])]
        case limits.Number(least, most, is_above):
            ends = [least if is_above else least - 1e-6, *([] if most is None else [most + 1e-6])]
            return [*ends, float("nan"), float("inf"), str(least)]
        case limits.OneOf():
            return ["something else", limit.names[0].upper() + "x", 3]
        case _:
            return ["-", "6-x!", ",", 3]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_setting_has_a_limit_that_holds_for_its_own_values(algorithm: str) -> None:
    args = ARGS[algorithm]
    stated = limits.limits(args)
    kinds = {field.name: type(getattr(args(), field.name)) for field in fields(args)}
    without = {name for name, kind in kinds.items() if kind is not bool} - stated.keys()
    assert without <= UNLIMITED
    for field in fields(args):
        if field.name in stated:
            assert stated[field.name].allows(getattr(args(), field.name)), field.name
    for preset in args.PRESETS:
        args(**{preset: True})


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_setting_beyond_its_limit_is_named_with_what_was_given_and_what_is_right(algorithm: str) -> None:
    for name, limit in limits.limits(ARGS[algorithm]).items():
        for value in beyond(limit):
            with pytest.raises(ValueError) as refusal:
                ARGS[algorithm](**{name: value})
            text = str(refusal.value)
            assert text.startswith(f"--{name.replace('_', '-')} {str(value).removesuffix('.0')}: "), text
            assert "\n" not in text
            assert text.endswith(f"expected {limit}") or name in ("against", "cc")


@pytest.mark.parametrize(
    "algorithm, option, value, right",
    [
        ("pdaa3c", "--workers", "0", "a whole number, 1 or more"),
        ("dqn", "--steps", "-5", "a whole number, 1 or more"),
        ("dqn", "--steps", "many", "a whole number, 1 or more"),
        ("dqn", "--gamma", "7", "a number, 0 to 1"),
        ("dqn", "--network", "6-x", "widths from 1 to 99999 joined by hyphens, such as 64-64"),
        ("rlds", "--mode", "both", "preferred or exclusive"),
        ("reles", "--learning-rate", "0", "a number above 0, up to 1"),
        ("stsgat", "--pool", "5", "a whole number, 6 or more"),
    ],
)
def test_the_command_and_the_import_say_the_same(algorithm: str, option: str, value: str, right: str) -> None:
    line = f"{option} {value}: expected {right}"
    with pytest.raises(ScenarioError) as of_command:
        command.run(algorithm, [option, value], Bar(Console()))
    assert str(of_command.value) == line
    name = option[2:].replace("-", "_")
    kind = type(getattr(ARGS[algorithm](), name))
    given = value if value == "many" else kind(value)
    with pytest.raises(SettingError, match=re.escape(line)):
        ARGS[algorithm](**{name: given})
    with pytest.raises(SettingError):
        replace(ARGS[algorithm](), **{name: given})


def test_a_mistake_is_one_line_and_the_status_of_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # In this process, where JAX is imported already.
    lines = []
    for options in (["--gamma", "7"], ["--gama", "0.7"]):
        monkeypatch.setattr(sys, "argv", ["weft", "train", "dqn", *options])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == exit_status.BAD_INPUT
        output = capsys.readouterr()
        assert output.out == ""
        lines.append(output.err)
    assert lines[0] == "weft: --gamma 7: expected a number, 0 to 1\n"


def test_help_states_what_each_option_takes() -> None:
    text = " ".join(command.parser("pdaa3c", pdaa3c.Args).format_help().split())
    for name, limit in limits.limits(pdaa3c.Args).items():
        assert re.search(rf"--{name.replace('_', '-')} [A-Z]+ [^[]*Takes {re.escape(str(limit))}\.", text), name


def test_controllers_are_known_before_anything_is_run() -> None:
    with pytest.raises(SettingError, match=r"^--cc cubic,cubc: .*did you mean `cubic`"):
        dqn.Args(cc="cubic,cubc")


def test_settings_that_do_not_go_together_are_named() -> None:
    # 16 of 20 scenarios are kept to compare by: 4 are left, and 5 are to be drawn of them without repetition.
    evolved.Args(pool=20, trials=16, instances=4)
    with pytest.raises(SettingError, match=r"--pool 20: expected at least 21.*--trials 16.*--instances 5"):
        evolved.Args(pool=20, trials=16, instances=5)
    # A visit of three decisions has none for a fourth place, and a memory of 31 never holds a batch of 32.
    with pytest.raises(SettingError, match=r"--visit 3: expected at least --envs 4"):
        falcon.Args(visit=3, envs=4)
    with pytest.raises(SettingError, match=r"--memory 31: expected at least --batch 32"):
        falcon.Args(memory=31, batch=32)
    with pytest.raises(SettingError, match=r"--gamma 1: expected a number from 0 to below 1"):
        falcon.Args(gamma=1.0)
    with pytest.raises(SettingError, match=r"--cautious: not for `falcon`"):
        falcon.Args(cautious=True)
    with pytest.raises(SettingError, match=r"--against lstm: no network `lstm`"):
        study.Args(against="lstm")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_is_given_wins_over_quick(algorithm: str) -> None:
    args = ARGS[algorithm]
    quick = args(quick=True)
    assert not quick.quick
    assert {name: getattr(quick, name) for name in args.QUICK} == dict(args.QUICK)
    for name in args.QUICK:
        # Also where what is given is what it would have been without `quick`.
        usual = {one: getattr(args(), one) for one in ("pool", name)}
        assert getattr(args(quick=True, **usual), name) == usual[name]
    given = command.settings(algorithm, args, ["--quick", "--steps", "7", "--pool", "200"])
    assert (given.steps, given.pool) == (7, 200)
    others = {name for name in args.QUICK if name not in ("steps", "pool")}
    assert all(getattr(given, name) == args.QUICK[name] for name in others)
    # The card's command repeats what was trained without `--quick`.
    assert "--quick" not in given.command()
    words = given.command().split()[3:]
    assert command.settings(algorithm, args, words).settings() == given.settings()


def test_what_is_given_wins_over_paper_and_quick_over_paper() -> None:
    paper = pdaa3c.Args(paper=True, workers=2)
    assert (paper.workers, paper.steps, paper.paper) == (2, pdaa3c.Args.PAPER["steps"], False)
    assert pdaa3c.Args(paper=True, quick=True).steps == pdaa3c.Args.QUICK["steps"]
    assert pdaa3c.Args(paper=True, quick=True, steps=9).steps == 9


def test_settings_that_are_made_of_others_are_not_quick_again() -> None:
    args = dqn.Args(quick=True)
    assert replace(args, steps=5).steps == 5
    assert replace(args, out=Path("there")).steps == dqn.Args.QUICK["steps"]


NUMBERS = {"five": 5, "six": 6, "nine": 9}


def inputs(task: str) -> int:
    from weftway import Scenario
    from weftway.vector import VectorEnv

    variants = Scenario.load("scenarios/wifi-lte.toml").variants()
    return VectorEnv(task, variants, ["cubic"], 1, 1).inputs


def test_docstrings_count_the_inputs_that_there_are() -> None:
    text = command.documented(dqn.Args)["state"]
    defaults = dict(re.findall(r"`(\w+)` \((\d+)", text))
    assert defaults.keys() == set(limits.limits(dqn.Args)["state"].names)  # type: ignore[attr-defined]
    for state, count in defaults.items():
        assert inputs(dqn.task(dqn.Args(state=state))) == int(count), state
    assert "Six inputs" in " ".join((dqn.__doc__ or "").split()) and inputs(dqn.task(dqn.Args())) == 6
    from weftway.learn.train import gaps, lee_yoo, reles, rlds, rosello

    assert "Nine inputs" in (lee_yoo.__doc__ or "") and inputs(lee_yoo.task(lee_yoo.Args())) == 9
    for state in rosello.NETWORKS:
        assert inputs(rosello.task(rosello.Args(state=state))) == int(state)
    # Five numbers of each path, and where slots are named the quality of each.
    assert "Five numbers of each path" in (pdaa3c.__doc__ or "")
    assert inputs(pdaa3c.task(pdaa3c.Args(slots=3))) == 5 * 3
    assert "five numbers of each path, and the task's quality of each" in " ".join((rlds.__doc__ or "").split())
    assert inputs(rlds.task(rlds.Args(slots=3))) == (5 + 1) * 3
    assert "last eight intervals" in (gaps.__doc__ or "") and "Six numbers of each path" in (gaps.__doc__ or "")
    assert inputs(gaps.task(gaps.Args(slots=3))) == 6 * 3 * 8
    assert "last eight intervals" in (reles.__doc__ or "")
    assert inputs(reles.task(reles.Args(slots=3))) % (8 * 3) == 0
    shape = stsgat.Args().shape
    own = shape.paths * shape.features * shape.steps + shape.packet_features * shape.steps + shape.paths
    assert inputs(stsgat.Args().task) == own


def test_an_earlier_training_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "dqn.safetensors").write_bytes(b"earlier")
    with pytest.raises(ScenarioError, match=r"an earlier training is there \(dqn.safetensors\); name another folder"):
        command.run("dqn", ["--quick", "--out", str(tmp_path)], Bar(Console()))
    assert (tmp_path / "dqn.safetensors").read_bytes() == b"earlier"
