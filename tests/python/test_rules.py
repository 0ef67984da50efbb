"""Schedulers written in Python."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import machine
import weftway
from conftest import SMALL, Weft
from weftway import Scenario
from weftway.runs import specs
from weftway.scenario import HOME

GOOD = '''\
class Fastest:
    """Min-RTT, as a person would write it."""

    def select(self, cx):
        return min(cx.sendable(), key=lambda path: path.srtt_ms, default=None)
'''


class Fastest:
    """Min-RTT, beside the test."""

    def select(self, cx: Any) -> Any:
        return min(cx.sendable(), key=lambda path: path.srtt_ms, default=None)


class Alternating:
    """Sees what happens to it; asks to be woken; uses ids."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.last = 0

    def select(self, cx: Any) -> int | None:
        others = [path.id for path in cx.sendable() if path.id != self.last]
        return others[0] if others else next((path.id for path in cx.sendable()), None)

    def observe(self, cx: Any, event: Any) -> None:
        assert cx.now_ms >= 0
        if event.kind == "sent":
            self.last = event.path


def scenario() -> Scenario:
    return Scenario.parse(SMALL)


def test_a_class_takes_part_beside_the_registry() -> None:
    rows = weftway.compare(scenario(), scheduler=[Fastest, Alternating, "min-rtt"], seeds=range(2))
    assert rows["scheduler"].to_list() == ["Fastest"] * 2 + ["Alternating"] * 2 + ["min-rtt"] * 2
    ours, theirs = (rows.filter(scheduler=name)["fct_ms"].to_list() for name in ("Fastest", "min-rtt"))
    assert len(ours) == 2
    assert all(fct > 0 for fct in ours + theirs)


class Sleepy:
    """Holds everything back until its own alarm, which it never moves on."""

    def __init__(self) -> None:
        self.woken = False

    def select(self, cx: Any) -> Any:
        return cx.paths[0] if self.woken and cx.paths[0].is_open else None

    def observe(self, cx: Any, event: Any) -> None:
        self.woken = self.woken or event.kind == "wake"

    def wake(self) -> float:
        return 500.0


def test_a_rule_is_woken_when_it_asked_and_only_then() -> None:
    row = weftway.run(scenario(), scheduler=Sleepy)
    # 300 kB at 10 Mbit/s take 240 ms at least, and nothing was sent before the alarm.
    assert row["fct_ms"] > 740
    assert row["path.lte.bytes"] == 0
    # From then on the alarm lies in the past.
    assert row["faults"] > 0


class Late:
    """Min-RTT, with an alarm that has always just passed."""

    def __init__(self) -> None:
        self.now = 0.0
        self.woken = False

    def select(self, cx: Any) -> Any:
        self.now = cx.now_ms
        return min(cx.sendable(), key=lambda path: path.srtt_ms, default=None) if cx.packet else None

    def observe(self, cx: Any, event: Any) -> None:
        self.now = cx.now_ms
        assert event.kind != "wake"

    def wake(self) -> float:
        return self.now - 1


class Punctual(Late):
    """Late rule with an alarm for this very moment."""

    def wake(self) -> float:
        return self.now


@pytest.mark.parametrize("rule", [Late, Punctual])
def test_an_alarm_in_the_past_is_a_fault_and_time_goes_on(rule: type) -> None:
    row = weftway.run(scenario(), scheduler=rule)
    assert (row["verdict"], row["faults"] > 0) == ("finished", True)
    assert row["fct_ms"] == weftway.run(scenario(), scheduler="min-rtt")["fct_ms"]


class Drawing:
    """Any open path; remembers what it drew, and by how many events."""

    drawn: list[list[tuple[int, float]]]

    def __init__(self) -> None:
        self.events = 0
        self.own: list[tuple[int, float]] = []
        Drawing.drawn.append(self.own)

    def select(self, cx: Any) -> Any:
        draw = cx.rng.random()
        self.own.append((self.events, draw))
        open_paths = cx.sendable()
        return open_paths[int(draw * len(open_paths))] if open_paths else None

    def observe(self, cx: Any, event: Any) -> None:
        self.events += 1
        self.own.append((-self.events, cx.rng.random()))

    def explain(self, cx: Any) -> str:
        assert (self.events, cx.rng.random()) == self.own[-1], "asked why, it draws what it drew when it was asked"
        assert cx.rng.random() != self.own[-1][1], "the second draw of a question is another one"
        return "drawn"


def draws(scenario: Scenario, seed: int) -> tuple[dict[str, Any], list[list[tuple[int, float]]]]:
    Drawing.drawn = []
    row = weftway.run(scenario, scheduler=Drawing, seed=seed)
    return row, Drawing.drawn


def test_a_rule_draws_by_the_seed_of_the_run() -> None:
    first, [drawn] = draws(scenario(), 0)
    assert draws(scenario(), 0) == (first, [drawn])
    other, [others] = draws(scenario(), 1)
    assert other["fct_ms"] != first["fct_ms"]
    assert not {draw for _, draw in drawn} & {draw for _, draw in others}
    # One number for each event, and one for the questions after each event.
    assert len(set(drawn)) == len({event for event, _ in drawn}) == len({draw for _, draw in drawn}) > 200
    # Evenly: of n numbers within [0, 1) the mean is off 1/2 by four deviations of 1/sqrt(12 n) once in 16 000 seeds.
    mean = sum(draw for _, draw in set(drawn)) / len(set(drawn))
    assert abs(mean - 0.5) < 4 / (12 * len(set(drawn))) ** 0.5


def test_asked_why_a_rule_draws_the_same(weft: Weft, small: Path, tmp_path: Path) -> None:
    lines = Path(__file__).read_text().splitlines()
    begin = lines.index("class Drawing:")
    end = next(at for at in range(begin + 1, len(lines)) if lines[at].startswith("def "))
    rule = "\n".join(["from typing import Any", *lines[begin:end]])
    rule = rule.replace("drawn: list[list[tuple[int, float]]]", "drawn = []")
    (tmp_path / "my_rules.py").write_text(rule)
    done = weft("run", small, "--scheduler", "my_rules.py:Drawing", "--events", "events.jsonl", "--json")
    assert (done.returncode, done.stderr) == (0, "")


CALL = """
title = "Both talk"
transport = "mpquic"
[path.wifi]
rate = "10 Mbit/s"
delay = "10 ms"
[path.lte]
rate = "10 Mbit/s"
delay = "30 ms"
[workload]
kind = "call"
rate = "1 Mbit/s"
period = "20 ms"
deadline = "100 ms"
duration = "1 s"
"""


class Half(Drawing):
    """The other half of a call begins as a copy of the first."""

    def __deepcopy__(self, memo: object) -> "Half":
        return Half()


def test_the_two_halves_of_a_call_draw_different_numbers() -> None:
    Drawing.drawn = []
    weftway.run(Scenario.parse(CALL), scheduler=Half)
    one, other = ({draw for _, draw in drawn} for drawn in Drawing.drawn)
    assert min(len(one), len(other)) > 50
    assert not one & other


class Never:
    """Sends nothing, ever."""

    def select(self, cx: Any) -> None:
        return None


def test_a_rule_that_never_sends_ends_and_is_no_result() -> None:
    with pytest.raises(weftway.SimulationError, match="scheduler `Never` sent nothing"):
        weftway.run(scenario(), scheduler=Never)


def test_the_row_has_the_hash_of_the_file(weft: Weft, small: Path, tmp_path: Path) -> None:
    import hashlib

    (tmp_path / "my_rules.py").write_text(GOOD)
    done = weft("compare", small, "--scheduler", "my_rules.py:Fastest,min-rtt", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    rows = json.loads(done.stdout)
    assert {row["scheduler_source"] for row in rows} == {hashlib.sha256(GOOD.encode()).hexdigest(), None}
    assert {row["scheduler"] for row in rows} == {"my_rules.py:Fastest", "min-rtt"}


def test_an_edited_rule_is_run_again(weft: Weft, small: Path, tmp_path: Path) -> None:
    words = ("compare", small, "--scheduler", "my_rules.py:Fastest", "--out", "out", "--json")
    (tmp_path / "my_rules.py").write_text(GOOD)
    weft(*words)
    (tmp_path / "my_rules.py").write_text(GOOD.replace("min(", "max("))
    rows = json.loads(weft(*words).stdout)
    fresh = json.loads(weft(*words[:-3], "--json").stdout)
    assert rows == fresh


BROKEN = {
    "raises": ("raise KeyError('lte')", "my_rules.py:3: scheduler `my_rules.py:Broken` failed at", "KeyError: 'lte'"),
    "a word": ("return 'wifi'", "my_rules.py:2: scheduler `my_rules.py:Broken` failed at", "answered 'wifi'"),
    "no such path": ("return 7", "my_rules.py:2:", "answered 7, a path that is not there"),
    "a full path": ("return next((p for p in cx.paths if not p.is_open), None)", "my_rules.py:2:", "cannot send now"),
    "a copy unannounced": ("import weftway; return weftway.Repeat(0, 0)", "my_rules.py:2:", "`needs`"),
    "a truth": ("return True", "my_rules.py:2:", "answered True"),
    "a negative offset": ("import weftway; return weftway.Ahead(0, -1)", "my_rules.py:3:", "negative"),
}


@pytest.mark.parametrize(("body", "place", "what"), BROKEN.values(), ids=BROKEN)
def test_a_broken_rule_is_one_clear_error(
    weft: Weft, small: Path, tmp_path: Path, body: str, place: str, what: str
) -> None:
    (tmp_path / "my_rules.py").write_text(f"class Broken:\n    def select(self, cx):\n        {body}\n")
    done = weft("compare", small, "--scheduler", "my_rules.py:Broken", "--out", "out", "--json")
    assert (done.returncode, done.stdout) == (1, "")
    assert len(machine.told(done.stderr)) == 1
    assert place in done.stderr
    assert what in done.stderr
    assert " ms: " in done.stderr
    assert not (tmp_path / "out" / "rows.parquet").exists()


TALKER = """
import asyncio

class Talker:
    def select(self, cx):
        print("here")
        return next(iter(cx.sendable()), None)

class Leaver:
    def select(self, cx):
        raise SystemExit(0)


class Canceller:
    def select(self, cx):
        raise asyncio.CancelledError  # No Exception, but a BaseException.
"""


def test_what_a_rule_prints_is_no_result(weft: Weft, small: Path, tmp_path: Path) -> None:
    (tmp_path / "my_rules.py").write_text(TALKER)
    done = weft("run", small, "--scheduler", "my_rules.py:Talker", "--json")
    assert len(json.loads(done.stdout)) == 1
    assert set(machine.told(done.stderr)) == {"here"}


def test_what_is_no_exception_is_told_as_one(weft: Weft, small: Path, tmp_path: Path) -> None:
    (tmp_path / "my_rules.py").write_text(TALKER)
    done = weft("run", small, "--scheduler", "my_rules.py:Canceller")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = machine.told(done.stderr)
    assert "my_rules.py:Canceller` failed at" in line
    assert "CancelledError" in line


@pytest.mark.parametrize("words", [(), ("--events", "events.txt")])
def test_a_rule_cannot_end_the_program(weft: Weft, small: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "my_rules.py").write_text(TALKER)
    done = weft("run", small, "--scheduler", "my_rules.py:Leaver", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert "`my_rules.py:Leaver` ended the program" in done.stderr
    assert not (tmp_path / "events.txt").exists()


UNFIT = {
    "no file": ("nowhere.py:Rule", "nowhere.py"),
    "no class": ("my_rules.py:Other", "no class `Other`"),
    "no select": ("my_rules.py:Idle", "no method `select"),
    "ends the program": ("leaves.py:Rule", "SystemExit"),
    "does not load": ("typo.py:Rule", "SyntaxError"),
}


@pytest.mark.parametrize(("name", "what"), UNFIT.values(), ids=UNFIT)
def test_what_is_no_rule_is_refused(weft_here: Weft, small: Path, tmp_path: Path, name: str, what: str) -> None:
    (tmp_path / "my_rules.py").write_text("class Idle:\n    pass\n")
    (tmp_path / "typo.py").write_text("class Rule\n")
    (tmp_path / "leaves.py").write_text("raise SystemExit(0)\n")
    done = weft_here("compare", small, "--scheduler", name)
    assert done.returncode == 2
    assert what in done.stderr
    assert "Traceback" not in done.stderr


def test_the_example_runs(weft: Weft, small: Path) -> None:
    done = weft("compare", small, "--scheduler", f"{HOME / 'examples/my_rules.py'}:Patient", "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) == 2


def picks(number: int) -> type:
    """Classes of one name and one text, whose rows differ."""

    class Picks:
        def select(self, cx: Any) -> int | None:
            return number if number in [path.id for path in cx.sendable()] else None

    return Picks


@pytest.mark.filterwarnings("ignore:Picks")
def test_two_schedulers_of_one_name_are_not_mistaken_for_each_other(tmp_path: Path) -> None:
    first, last = picks(0), picks(1)

    def fct(rule: Any) -> float:
        return float(weftway.compare(scenario(), scheduler=rule, seeds=range(1), out=tmp_path)["fct_ms"][0])

    assert fct(first) != fct(last) != fct(first)
    with pytest.raises(weftway.ScenarioError, match="`Picks`: two have this name"):
        weftway.compare(scenario(), scheduler=[first, last], seeds=range(1))
    for name in ("Picks", "ecf"):
        rule = type(name, (first,), {})
        with pytest.raises(weftway.ScenarioError, match="two have this name"):
            weftway.compare(scenario(), scheduler=[last, "ecf", rule], seeds=range(1))
    with pytest.raises(weftway.ScenarioError, match="this is an instance; pass the class"):
        weftway.compare(scenario(), scheduler=first(), seeds=range(1))


class Numbered:
    """Rule whose pick is an attribute, which may be set anew."""

    number = 0

    def select(self, cx: Any) -> int | None:
        paths = [path.id for path in cx.sendable()]
        return paths[self.number] if paths else None


class Inheriting(Numbered, dict):  # type: ignore[type-arg]
    """Has it from there, and something of a class that is no text."""


def test_an_attribute_that_was_set_anew_is_another_source(monkeypatch: pytest.MonkeyPatch) -> None:
    before = specs.parse(Inheriting)[0].source
    assert specs.parse([Inheriting, Inheriting])[0].source == before
    monkeypatch.setattr(Numbered, "number", -1)
    assert specs.parse(Inheriting)[0].source not in (before, specs.UNKNOWN)


def test_what_stands_beside_a_class_is_a_part_of_its_source(tmp_path: Path) -> None:
    def source(module: str) -> str | None:
        (tmp_path / "rule.py").write_text(
            f"import math\nimport {module}\nclass Rule({module}.Base):\n    files = ('net.txt',)\n", encoding="utf-8"
        )
        return specs.parse(f"{tmp_path}/rule.py:Rule")[0].source

    (tmp_path / "net.txt").write_text("1", encoding="utf-8")
    base = "class Base:\n    number = {}\n    def select(self, cx):\n        return None\n"
    # Python imports a module once: so two of them.
    for name, number in (("weftway_test_one", 0), ("weftway_test_two", 1)):
        (tmp_path / f"{name}.py").write_text(base.format(number), encoding="utf-8")
    one, two = source("weftway_test_one"), source("weftway_test_two")
    (tmp_path / "weftway_test_two.py").write_text(base.format(1) + "\n", encoding="utf-8")
    assert len({one, two}) == 2
    assert source("weftway_test_two") == two, "what Python has imported goes on to count"
    sys.modules.pop("weftway_test_two")
    changed = source("weftway_test_two")
    (tmp_path / "net.txt").write_text("2", encoding="utf-8")
    assert len({one, two, changed, source("weftway_test_two")}) == 4
    (tmp_path / "net.txt").unlink()
    with pytest.raises(weftway.ScenarioError, match="its `files` have to be names of files"):
        source("weftway_test_one")


@pytest.mark.parametrize(
    ("needs", "message"), [("None", "None"), ("(1,)", r"\(1,\)"), ("5", "5"), ("'copies'", "'copies'")]
)
def test_needs_are_names(needs: str, message: str, tmp_path: Path, weft: Weft) -> None:
    rule = tmp_path / "my_rules.py"
    rule.write_text(
        f"class Rule:\n    needs = {needs}\n    def select(self, cx):\n        return None\n", encoding="utf-8"
    )
    with pytest.raises(weftway.ScenarioError, match=rf"`needs` is {message}; expected names"):
        weftway.compare(scenario(), scheduler=f"{rule}:Rule", seeds=range(1))


def test_an_edit_of_equal_length_in_the_same_second_counts(tmp_path: Path) -> None:
    rule = tmp_path / "rule.py"
    text = "class Rule:\n    number = {}\n    def select(self, cx):\n        return None\n"

    def number(value: int) -> Any:
        rule.write_text(text.format(value), encoding="utf-8")
        os.utime(rule, (1_000_000_000, 1_000_000_000))
        parsed = specs.parse(f"{rule}:Rule")[0].rule
        return vars(parsed)["number"] if parsed else None

    assert [number(value) for value in (1, 2, 3)] == [1, 2, 3]


def test_what_a_rule_sees_and_answers_prints_what_it_is() -> None:
    texts: set[str] = set()

    class Prints:
        def select(self, cx: Any) -> Any:
            texts.update(map(str, (cx.packet, cx.flow)))
            return next(iter(cx.sendable()), None)

        def observe(self, cx: Any, event: Any) -> None:
            texts.add(str(event))

    weftway.compare(scenario(), scheduler=Prints, seeds=range(1))
    answers = (weftway.Ahead(1, 9), weftway.Repeat(0, 9), weftway.Recall(1))
    assert [str(answer) for answer in answers] == ["Ahead(1, 9)", "Repeat(0, 9)", "Recall(1)"]
    assert any(re.fullmatch(r"Event\(sent, fresh, path \d, offset 0, bytes \d+, serial 0\)", text) for text in texts)
    assert any(re.fullmatch(r"Packet\(offset 0, \d+ B, carried by \[\]\)", text) for text in texts)
    assert any(re.fullmatch(r"Flow\(una 0, next 0, end \d+, \d+ B unsent, \d+ B of credit\)", text) for text in texts)
