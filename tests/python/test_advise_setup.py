"""`weft advise --write`: set-up that lasts. Its script runs here against an `ip` that takes down what it is told."""

import os
import subprocess
from pathlib import Path

import pytest

from conftest import Weft
from weftway import ScenarioError, advise
from weftway.advise import setup, words
from weftway.advise.candidates import paths

# Wi-Fi is good, and the other link is hardly worth having.
LINKS = """\
title = "A good link and a poor one"
seeds = "0..2"
[path.wifi-6]
rate = "20 Mbit/s"
delay = "10 ms"
[path.lte]
rate = "{rate} Mbit/s"
delay = "{delay} ms"
[workload]
kind = "bulk"
bytes = "1 MB"
"""

IP = """\
#!/bin/sh
echo "ip $*" >> "$LOG"
case "$*" in
*address*wlan0*) echo "3: wlan0    inet 192.0.2.7/24 brd 192.0.2.255 scope global wlan0" ;;
*address*wwan0*) echo "4: wwan0    inet 198.51.100.9/30 scope global wwan0" ;;
*route\\ show*wlan0*) echo "default via 192.0.2.1 proto dhcp src 192.0.2.7 metric 600" ;;
*route\\ show*wwan0*) echo "default scope link" ;;
*rule\\ del*) exit 2 ;;
esac
"""


def advice(folder: Path, rate: int, delay: int) -> advise.Advice:
    file = folder / "links.toml"
    file.write_text(LINKS.format(rate=rate, delay=delay))
    return advise.advise(advise.Request(str(file), cells=1, seeds="0..2"), 2)


@pytest.fixture
def poor(tmp_path: Path) -> advise.Advice:
    """One link is so slow that the other does better alone."""
    return advice(tmp_path, 1, 400)


def test_the_best_link_alone_is_told_in_plain_words(poor: advise.Advice, tmp_path: Path) -> None:
    lines = {line[:9].strip(): line[10:] for line in advise.lines(poor)}
    assert "alone" in lines
    is_single = bool(poor.chosen.candidate.alone)
    assert lines["alone"].startswith("do not bond: wifi-6 alone is best" if is_single else "best link alone, wifi-6, ")
    good = advice(tmp_path, 18, 12)
    assert good.chosen.candidate.alone == ""
    assert words.alone(good).startswith("best link alone, ")
    assert " less over all cells" in words.alone(good), "two equal links carry more than one"


def test_who_shall_not_bond_is_told_so(poor: advise.Advice) -> None:
    single = next(one for one in poor.trials if one.candidate.alone == "wifi-6")
    told = words.alone(advise.Advice(**{**vars(poor), "chosen": single}))
    assert told.startswith("do not bond: wifi-6 alone is best, ")
    assert "all links together take " in told


def test_the_script_sets_an_endpoint_a_table_and_a_rule_for_each_link(poor: advise.Advice, tmp_path: Path) -> None:
    files = setup.write(poor, tmp_path / "files")
    assert {str(file.relative_to(tmp_path / "files")) for file in files} == {
        "README",
        *(f"{end}/{name}" for end in ("here", "server") for name in (setup.SCRIPT, setup.UNIT, setup.SYSCTL)),
    }
    script = tmp_path / "files/here" / setup.SCRIPT
    text = script.read_text()
    for name, interface in (("wifi_6", "wlan0"), ("lte", "wwan0")):
        assert f"interface_{name}=" in text
        text = text.replace(f'interface_{name}="{name.replace("_", "-")}"', f'interface_{name}="{interface}"')
    script.write_text(text)
    (tmp_path / "ip").write_text(IP)
    (tmp_path / "ip").chmod(0o755)
    log = tmp_path / "log"
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(log)}
    done = subprocess.run(["sh", script], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    told = log.read_text().splitlines()
    assert "ip mptcp limits set subflow 2 add_addr_accepted 2" in told
    assert "ip rule add from 192.0.2.7 table 7100" in told
    assert "ip route replace default via 192.0.2.1 dev wlan0 table 7100" in told
    assert "ip route replace default dev wwan0 table 7101" in told
    endpoints = [line for line in told if "endpoint add" in line]
    assert [line.split()[4:7] for line in endpoints] == [
        ["192.0.2.7", "dev", "wlan0"],
        ["198.51.100.9", "dev", "wwan0"],
    ]
    backups = [line.endswith(" backup") for line in endpoints]
    assert backups == [name in poor.chosen.candidate.backups for name in ("wifi-6", "lte")]


def test_settings_go_to_the_end_that_they_are_for(poor: advise.Advice, tmp_path: Path) -> None:
    setup.write(poor, tmp_path / "files")
    for end in ("here", "server"):
        lines = (tmp_path / "files" / end / setup.SYSCTL).read_text().splitlines()
        assert lines[1] == "net.mptcp.enabled = 1"
        assert all(" = " in line and "'" not in line for line in lines[1:])
    chosen = [one for one in poor.chosen.candidate.commands if one.startswith("sysctl")]
    assert len(chosen) == sum(
        len((tmp_path / "files" / end / setup.SYSCTL).read_text().splitlines()) - 2 for end in ("here", "server")
    )


def test_nothing_is_overwritten(poor: advise.Advice, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    with pytest.raises(ScenarioError, match="it is there already"):
        setup.write(poor, tmp_path / "files")
    assert paths({"path.a.rate": 1, "path.b.rate": 1}) == ["a", "b"]


def test_the_command_writes_them(weft_here: Weft, tmp_path: Path) -> None:
    (tmp_path / "links.toml").write_text(LINKS.format(rate=10, delay=30))
    done = weft_here("advise", "links.toml", "--cells", "1", "--seeds", "0..2", "--write", "files")
    assert "begin with files/README" in done.stderr
    assert "alone     " in done.stdout
    assert "mptcpize enable" in (tmp_path / "files/README").read_text()
