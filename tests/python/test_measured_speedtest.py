"""The JSON of Ookla's speedtest, and of others that are told apart from it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from weftway import ScenarioError
from weftway.links import measured, new_scenario

RESULT: dict[str, Any] = {
    "type": "result",
    "ping": {"jitter": 0.4, "latency": 11.2, "low": 10.9, "high": 12.0},
    "download": {"bandwidth": 11_250_000, "bytes": 118_000_000, "elapsed": 10_500},
    "upload": {"bandwidth": 1_250_000, "bytes": 13_000_000, "elapsed": 10_400},
    "packetLoss": 0,
    "server": {"id": 1, "host": "speed.example"},
}


def read(folder: Path, text: str) -> measured.Reading:
    file = folder / "dsl.json"
    file.write_text(text)
    return measured.read(file)


def test_bandwidth_is_in_bytes_a_second(tmp_path: Path) -> None:
    log = json.dumps({"type": "log", "message": "no matter"})
    for text in (
        json.dumps(RESULT),
        json.dumps(RESULT, indent=1),
        f"{log}\n{json.dumps(RESULT)}\n",
        "\ufeff" + json.dumps(RESULT),
    ):
        reading = read(tmp_path, text)
        # 11 250 000 and 1 250 000 bytes a second, times eight.
        assert (reading.rates["down"].value, reading.rates["up"].value) == (90, 10)
        assert reading.rtt_ms is not None and (reading.rtt_ms.value, reading.rtt_ms.low, reading.rtt_ms.high) == (
            11.2,
            10.9,
            12,
        )
        # Its loss is a share of nobody knows how many packets, and its jitter no deviation.
        assert reading.loss is None and reading.loss_unknown and reading.jitter_ms is None
    new_scenario.from_measurements(str(tmp_path / "home"), [f"{tmp_path}/dsl.json", "b.rate=20Mbit/s"], None)
    text = (tmp_path / "home.toml").read_text()
    for line in ('rate.down = "90 Mbit/s"', 'rate.up = "10 Mbit/s"', 'delay = "5.6 ms"'):
        assert re.search(re.escape(line).replace("\\ ", " +"), text), text


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({**RESULT, "download": {**RESULT["download"], "bandwidth": 0}}, "do not add up"),
        ({**RESULT, "ping": {}}, "`latency` is missing"),
        ({**RESULT, "upload": None}, "a value is of another type"),
        ({**RESULT, "error": "Cannot read"}, "the speed test failed: Cannot read"),
        ({"download": 9e7, "upload": 1e7, "ping": 11.2, "server": {}, "bytes_sent": 1}, "JSON of `speedtest-cli`"),
        ([{"download": 90.0, "upload": 10.0, "ping": 11.2, "server": {}, "bytes_sent": 1}], "or `librespeed-cli`"),
        ({"some": "thing"}, "JSON of another program than iperf3"),
    ],
)
def test_what_is_no_such_result_is_refused_by_its_name(tmp_path: Path, content: object, why: str) -> None:
    with pytest.raises(ScenarioError, match=why):
        read(tmp_path, json.dumps(content))


def test_two_results_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="several speed tests in one file"):
        read(tmp_path, f"{json.dumps(RESULT)}\n{json.dumps({**RESULT, 'packetLoss': 1})}\n")
