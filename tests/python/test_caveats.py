"""Caveats: no failure is shown as a result, and what qualifies a result is said before it."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import weftway
from conftest import Weft
from ends import wait_until
from weftway.runs import caveats, watch
from weftway.runs.specs import SchedulerSpec
from weftway.stats import pairs as paired

RULES = '''\
class OffByOne:
    """Names a path that is not open, now and then: a fault each time."""

    def __init__(self):
        self.asked = 0

    def select(self, cx):
        return min(cx.sendable(), key=lambda path: path.srtt_ms, default=None)

    def wake(self):
        self.asked += 1
        return 0.0


class Never:
    def select(self, cx):
        return None
'''


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "rules.py"
    file.write_text(RULES)
    return file


def test_a_rule_that_never_sends_is_no_result(weft_here: Weft, small: Path, rules: Path) -> None:
    done = weft_here("compare", small, "--scheduler", f"{rules}:Never,min-rtt", "--json")
    assert done.returncode == 1
    assert {row["scheduler"] for row in json.loads(done.stdout)} == {"min-rtt"}
    assert f"scheduler `{rules}:Never` sent nothing" in done.stderr


def test_faults_are_a_warning_that_names_the_scheduler_alone_that_has_them() -> None:
    def row(name: str, faults: int) -> dict[str, object]:
        return {"scheduler": name, "faults": faults, "decisions": 100}

    (line,) = caveats.faults([row("mine", 2), row("mine", 0), row("mine", 5), row("min-rtt", 0)])
    assert line.startswith("mine: 7 faults in 2 of 3 runs (300 decisions)")


def test_faults_are_told_by_the_command_and_in_python(small: Path, weft_here: Weft, rules: Path) -> None:
    alarm_in_the_past = f"{rules}:OffByOne"
    done = weft_here("run", small, "--scheduler", alarm_in_the_past, "--json")
    faults = json.loads(done.stdout)[0]["faults"]
    if faults:
        assert f"warning: {alarm_in_the_past}: {faults} faults in 1 of 1 runs" in done.stderr
    else:
        pytest.fail("the rule was to have faults")


@pytest.mark.parametrize(
    ("option", "names"), [("--scheduler", "ecf,blest"), ("--cc", "lia,cubic"), ("--scheduler", "all")]
)
def test_one_run_refuses_several_and_says_what_runs_them(weft_here: Weft, small: Path, option: str, names: str) -> None:
    done = weft_here("run", small, option, names)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"`weft compare {small} {option} {names}`" in done.stderr


def test_one_run_takes_a_name_twice(weft_here: Weft, small: Path) -> None:
    done = weft_here("run", small, "--scheduler", "minrtt,min-rtt", "--json")
    assert [row["scheduler"] for row in json.loads(done.stdout)] == ["min-rtt"]


def test_python_refuses_several_too(small: Path) -> None:
    with pytest.raises(weftway.ScenarioError, match="a run has one, and 2 are named"):
        weftway.run(small, scheduler=["ecf", "blest"])


@pytest.mark.parametrize("verb", ["compare", "sweep"])
def test_a_backend_that_runs_nothing_is_a_failure(weft_here: Weft, tmp_path: Path, small: Path, verb: str) -> None:
    text = small.read_text()
    small.write_text(f'backend = "quic"\n{text}')
    done = weft_here(verb, small, "--out", tmp_path / "out", "--json")
    assert (done.returncode, done.stdout) == (1, "[]\n")
    assert 'skipped: min-rtt: on QUIC only transport = "mpquic" runs' in done.stderr


def run(scheduler: str, instance: int, **more: object) -> dict[str, object]:
    """A row of an evaluation, of a policy unless it is min-RTT."""
    usual = {
        "instance": f"i{instance}",
        "cc": "cubic",
        "scheduler": scheduler,
        "is_policy": scheduler != "min-rtt",
        "mode": "each packet",
        "on": "somewhere",
        "measure": "fct_ms",
        "verdict": "finished",
        "fct_ms": 100.0,
        "goodput_mbps": 8.0,
        "elapsed_ms": 100.0,
        "delivered_bytes": 100_000,
        "ooo_packets": 3,
        "retransmissions": 0,
        "path.a.packets": 70,
        "path.b.packets": 30,
        "decisions": 100,
        "fallback_decided": None if scheduler == "min-rtt" else 40,
        "fallback_differs": None if scheduler == "min-rtt" else 0,
    }
    return {**usual, **more}


def told(*rows: dict[str, object]) -> list[str]:
    summary = paired.summary(pl.DataFrame(list(rows), infer_schema_length=None))
    return caveats.evaluated(summary.iter_rows(named=True))


def test_a_policy_that_is_its_fallback_under_another_name_is_told() -> None:
    same = [run(name, instance) for name in ("min-rtt", "dqn") for instance in range(4)]
    assert told(*same) == [
        "dqn under cubic: its policy decided otherwise than its fallback would have in 0 % of all decisions; "
        "the fallback itself decided 40 %",
        "dqn under cubic: equals min-rtt in 100 % of 4 runs",
    ]


def test_equal_times_by_other_paths_are_not_equal_runs() -> None:
    ours = [run("dqn", 0, fallback_differs=30, **{"path.a.packets": 60, "path.b.packets": 40}), run("dqn", 1)]
    theirs = [run("min-rtt", 0), run("min-rtt", 1)]
    first, second = told(*ours, *theirs)
    assert "in 15 % of all decisions" in first  # 30 of 200
    assert second.endswith("equals min-rtt in 50 % of 2 runs")


def test_a_rule_without_a_fallback_has_no_such_line() -> None:
    other = run("ecf", 0, elapsed_ms=90.0, fallback_decided=None, fallback_differs=None)
    assert told(run("min-rtt", 0), other) == []


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0 %"), (1e-6, "less than 0.1 %"), (0.9999, "more than 99.9 %"), (1, "100 %")]
)
def test_a_share_that_is_not_all_is_not_shown_as_all(share: float, text: str) -> None:
    assert caveats.percent(share) == text


class Slow:
    """Answers when it is told to, in a frame of its own."""

    def select(self, until: Callable[[], object]) -> None:
        until()


def test_a_rule_that_does_not_answer_is_named_once(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weftway.runs.watch.PATIENCE_S", 0.1)
    output = ""

    def is_named() -> bool:
        nonlocal output
        output += capfd.readouterr().err
        return output.endswith("\n")

    def named() -> None:
        wait_until(is_named)
        # Long enough for being named again.
        time.sleep(0.3)

    with watch.watched([SchedulerSpec("rules.py:Slow", "", rule=Slow)]):
        Slow().select(named)
    (line,) = (output + capfd.readouterr().err).splitlines()
    assert "scheduler `rules.py:Slow` has not answered for 0.1 s" in line
    assert "test_caveats.py" in line
    assert "in select" in line


def test_a_rule_that_answers_often_is_not_named(capfd: pytest.CaptureFixture[str]) -> None:
    """Whenever the watcher looks there is another call, however long either of them waits for the processor."""
    calls = 4 * watch.LOOKS
    asked, answered = threading.Semaphore(0), threading.Semaphore(0)

    def answer() -> None:
        asked.release()
        answered.acquire()

    def rule() -> None:
        for _ in range(calls):
            Slow().select(answer)

    class Pauses(threading.Event):
        """In each pause of the watcher the call before is answered, and the next one is asked."""

        at = 0

        def wait(self, timeout: float | None = None) -> bool:
            if self.at:
                answered.release()
            self.at += 1
            return self.at > calls or not asked.acquire()

    thread = threading.Thread(target=rule)
    thread.start()
    assert thread.ident
    watch._look({Slow.select.__code__: ["`rules.py:Slow`"]}, thread.ident, Pauses())
    thread.join()
    assert capfd.readouterr().err == ""
