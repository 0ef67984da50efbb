"""`weft steer`: what it refuses, and how it reads what is given; nothing here needs rights."""

import json
from dataclasses import dataclass

import pytest

from conftest import Weft
from weftway._native import ScenarioError
from weftway.links import steer
from weftway.runs import specs
from weftway.scenario import load


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("100ms", 100.0), ("0.05 s", 50.0), (" 5ms ", 5.0), ("60s", 60_000.0)]
)
def test_an_interval_has_a_unit(text: str, milliseconds: float) -> None:
    assert steer.interval(text) == pytest.approx(milliseconds)
    assert steer.SteeringOptions(steer.interval(text)).interval_ms == pytest.approx(milliseconds)


@pytest.mark.parametrize("text", ["", "100", "ms", "-5ms", "1e3ms", "nan ms"])
def test_what_is_no_interval_is_refused(text: str) -> None:
    with pytest.raises(ScenarioError, match="--interval"):
        steer.interval(text)


@pytest.mark.parametrize("text", ["4ms", "0s", "61s", "5 min"])
def test_an_interval_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(ScenarioError, match="from 5 ms to 60 s"):
        steer.SteeringOptions(steer.interval(text))


# 0xb2c1 = 11 * 4096 + 2 * 256 + 12 * 16 + 1 = 45761.
@pytest.mark.parametrize(("text", "number"), [("0xb2c1", 45_761), ("b2c1", 45_761), ("0xffffffff", 2**32 - 1)])
def test_a_token_is_read_as_ss_prints_it(text: str, number: int) -> None:
    assert steer.token(text) == number


@pytest.mark.parametrize("text", ["", "0x", "wifi", "0x100000000", "100000000000"])
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(ScenarioError, match="--token"):
        steer.token(text)


def test_no_token_is_every_connection() -> None:
    assert steer.token(None) is None


BAD = {
    "nothing to steer": ([], "takes a scenario, or --live"),
    "both": (["wifi-lte", "--live"], "takes a scenario, or --live"),
    "a token of no connection": (["wifi-lte", "--token", "0x1"], "takes a scenario, or --live"),
    "an unknown mode": (["wifi-lte", "--mode", "both"], "--mode both: there is exclusive, preferred"),
    "an interval without a unit": (["wifi-lte", "--interval", "100"], "--interval 100: expected a time"),
    "an unknown scenario": (["wifi-lt"], "did you mean `wifi-lte`?"),
    "live and a controller": (["--live", "--cc", "cubic"], "it does not take --cc"),
    "live and seeds": (["--live", "--seeds", "0..3"], "it does not take --seeds"),
    "live and a setting": (["--live", "--set", "path.lte.loss=2%"], "it does not take --set"),
    "live and jobs": (["--live", "--jobs", "2"], "it does not take --jobs"),
    "live and several": (["--live", "--cc", "cubic", "--jobs", "2"], "it does not take --cc, --jobs"),
}


@pytest.mark.parametrize(("words", "hint"), BAD.values(), ids=BAD)
def test_bad_input_is_one_message_and_status_2(weft_here: Weft, words: list[str], hint: str) -> None:
    done = weft_here("steer", *words, "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert hint in done.stderr
    assert "Traceback" not in done.stderr


def test_the_help_says_what_a_scenario_may_be(weft: Weft) -> None:
    output = " ".join(weft("steer", "--help").stdout.split())
    assert "A scenario file, or the name of one of ours; none with --live." in output


def test_each_transfer_has_a_lab_and_its_own_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labs that answer at the second look, no more than three of them at a time, and none is left behind."""

    @dataclass(eq=False)
    class Lab:
        transfer: steer.Transfer
        looks: int = 0

        def told(self) -> tuple[str, str] | None:
            self.looks += 1
            if self.looks < 2:
                return None
            running.remove(self)
            return "row", json.dumps({"seed": self.transfer.seed, "of": self.transfer.command})

        def cancel(self) -> None:
            raise AssertionError("all have answered")

    running: list[Lab] = []
    most = 0

    def started(transfer: steer.Transfer) -> Lab:
        nonlocal most
        running.append(Lab(transfer))
        most = max(most, len(running))
        return running[-1]

    monkeypatch.setattr(steer, "_started", started)
    monkeypatch.setattr(steer, "POLL_S", 0)
    options = steer.SteeringOptions()
    wanted = steer.transfers(load("gaming"), specs.parse("min-rtt"), options, "cubic", "0..4")
    rows, skipped = steer.run(wanted)
    assert [row["of"] for row in rows] == [transfer.command for transfer in wanted]
    assert (len(rows), skipped, most) == (8, [], 3)
