"""`weft advise --write`: set-up that lasts.

Its script runs in a namespace, and against an `ip` that takes down what it is told.
"""

import os
import subprocess
from pathlib import Path

import pytest

import namespaces
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
*route\\ show\\ default*wlan0*) echo "default via 192.0.2.1 proto dhcp src 192.0.2.7 metric 600" ;;
*route\\ show\\ default*wwan0*) echo "default scope link" ;;
*route\\ show*wlan0*kernel*) echo "192.0.2.0/24 scope link src 192.0.2.7 metric 600" ;;
*rule\\ del*) exit 2 ;;
esac
"""


def advice(folder: Path, rate: int, delay: int) -> advise.Advice:
    file = folder / "links.toml"
    file.write_text(LINKS.format(rate=rate, delay=delay))
    return advise.advise(advise.Request(str(file), cells=1, seeds="0..2"), 2)


@pytest.fixture
def poor(tmp_path: Path) -> advise.Advice:
    """Advice where a link is so slow that the other does better alone."""
    return advice(tmp_path, 1, 400)


def test_the_best_link_alone_is_told_in_plain_words(poor: advise.Advice, tmp_path: Path) -> None:
    lines = {line[:9].strip(): line[10:] for line in advise.lines(poor)}
    assert "alone" in lines
    is_single = bool(poor.chosen.candidate.alone)
    assert lines["alone"].startswith("do not bond: wifi-6 alone is best" if is_single else "best link alone, wifi-6, ")
    good = advice(tmp_path, 18, 12)
    assert good.chosen.candidate.alone == ""
    assert words.alone(good).startswith("best link alone, ")
    assert " % less (" in words.alone(good), "two equal links carry more than one"


def filled_in(folder: Path, wifi: str, lte: str) -> Path:
    """The script of this end, with interfaces."""
    script = folder / "here" / setup.SCRIPT
    text = script.read_text()
    for name, variable, interface in (("wifi-6", "wifi_6", wifi), ("lte", "lte", lte)):
        assert f'interface_{variable}="{name}"' in text
        text = text.replace(f'interface_{variable}="{name}"', f'interface_{variable}="{interface}"')
    script.write_text(text)
    return script


def test_the_script_sets_an_endpoint_a_table_and_a_rule_for_each_link(poor: advise.Advice, tmp_path: Path) -> None:
    files = setup.write(poor, tmp_path / "files")
    assert {str(file.relative_to(tmp_path / "files")) for file in files} == {
        "README",
        *(f"{end}/{name}" for end in ("here", "server") for name in (setup.SCRIPT, setup.UNIT, setup.SYSCTL)),
        f"here/{setup.HOOK}",
    }
    script = filled_in(tmp_path / "files", "wlan0", "wwan0")
    (tmp_path / "ip").write_text(IP)
    (tmp_path / "ip").chmod(0o755)
    log = tmp_path / "log"
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(log)}
    done = subprocess.run(["sh", script], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    lines = log.read_text().splitlines()
    assert "ip mptcp limits set subflow 2 add_addr_accepted 2" in lines
    assert "ip -4 rule add from 192.0.2.7 table 7100" in lines
    assert "ip -4 route replace 192.0.2.0/24 dev wlan0 table 7100" in lines
    assert "ip -4 route replace default via 192.0.2.1 dev wlan0 table 7100" in lines
    assert "ip -4 route replace default dev wwan0 table 7101" in lines
    endpoints = [line for line in lines if "endpoint add" in line]
    assert [line.split()[4:7] for line in endpoints] == [
        ["192.0.2.7", "dev", "wlan0"],
        ["198.51.100.9", "dev", "wwan0"],
    ]
    backups = [line.endswith(" backup") for line in endpoints]
    assert backups == [name in poor.chosen.candidate.backups for name in ("wifi-6", "lte")]


def endpoints(lab: namespaces.Lab) -> dict[str, str]:
    """Their addresses, and the number of each."""
    lines = [line.split() for line in lab.run(lab.near, "ip", "mptcp", "endpoint", "show").stdout.splitlines()]
    return {address: words[1] for address, *words in lines}


def rules(lab: namespaces.Lab) -> dict[str, str]:
    """The addresses that have a table, and which."""
    lines = [line.split() for line in lab.run(lab.near, "ip", "rule", "show").stdout.splitlines()]
    return {words[2]: words[4] for words in lines if words[4].startswith("71")}


@namespaces.tunnels
def test_the_script_follows_links_that_reconnect(poor: advise.Advice, tmp_path: Path) -> None:
    setup.write(poor, tmp_path / "files")
    script = filled_in(tmp_path / "files", "near1", "near2")
    with namespaces.lab(tmp_path) as lab:
        if lab.run(lab.near, "ip", "mptcp", "endpoint").returncode != 0:
            pytest.skip("this kernel has no MPTCP")

        def ip(*words: str) -> str:
            done = lab.run(lab.near, "ip", *words)
            assert done.returncode == 0, done.stderr
            return done.stdout

        def set_up() -> dict[str, str]:
            done = lab.run(lab.near, "sh", script)
            assert done.returncode == 0, done.stderr
            return endpoints(lab)

        first = set_up()
        assert list(first) == ["10.9.1.1", "10.9.2.1"]
        assert rules(lab) == {"10.9.1.1": "7100", "10.9.2.1": "7101"}
        assert "via 10.9.1.2" in ip("route", "get", "8.8.8.8", "from", "10.9.1.1")
        # A neighbour on the link's own network is reached without the router.
        assert "via" not in ip("route", "get", "10.9.1.77", "from", "10.9.1.1")

        ip("link", "set", "near1", "down")
        ip("link", "set", "near1", "up")
        assert ip("route", "show", "table", "7100") == ""
        ip("route", "add", "default", "via", "10.9.1.2")
        assert set_up() == first, "an endpoint that is right stays: its subflows would end"
        assert "via 10.9.1.2" in ip("route", "show", "table", "7100")

        ip("address", "delete", "10.9.2.1/24", "dev", "near2")
        ip("address", "add", "10.9.2.5/24", "dev", "near2")
        later = set_up()
        assert list(later) == ["10.9.1.1", "10.9.2.5"] and later["10.9.1.1"] == first["10.9.1.1"]
        assert rules(lab) == {"10.9.1.1": "7100", "10.9.2.5": "7101"}

        ip("address", "delete", "10.9.2.5/24", "dev", "near2")
        assert list(set_up()) == ["10.9.1.1"]
        assert rules(lab) == {"10.9.1.1": "7100"} and ip("route", "show", "table", "all").count("7101") == 0


@namespaces.tunnels
def test_two_links_with_one_address_are_told_and_the_first_is_kept(poor: advise.Advice, tmp_path: Path) -> None:
    """Two modems with the same firmware give the same address. MPTCP tells subflows apart by it."""
    setup.write(poor, tmp_path / "files")
    script = filled_in(tmp_path / "files", "near1", "near2")
    with namespaces.lab(tmp_path) as lab:
        if lab.run(lab.near, "ip", "mptcp", "endpoint").returncode != 0:
            pytest.skip("this kernel has no MPTCP")
        for device, own in (("near1", "10.9.1.1/24"), ("near2", "10.9.2.1/24")):
            lab.run(lab.near, "ip", "address", "delete", own, "dev", device)
            assert lab.run(lab.near, "ip", "address", "add", "192.168.8.100/24", "dev", device).returncode == 0
        first, again = (lab.run(lab.near, "sh", script) for _ in range(2))
        for done in (first, again):
            assert done.returncode == 0 and done.stderr.count("near2 is left out") == 1, done.stderr
            assert "another link has its address, 192.168.8.100" in done.stderr
        shown = lab.run(lab.near, "ip", "mptcp", "endpoint", "show").stdout
        assert len(shown.splitlines()) == 1 and "dev near1" in shown and " id 1 " in shown, "it stays the same one"
        assert rules(lab) == {"192.168.8.100": "7100"}


def test_of_nine_links_linux_sets_up_eight(tmp_path: Path) -> None:
    text = LINKS.format(rate=10, delay=20)
    more = "".join(f'[path.m{n}]\nrate = "5 Mbit/s"\ndelay = "{20 + n} ms"\n' for n in range(7))
    file = tmp_path / "links.toml"
    file.write_text(text.replace("[workload]", f"{more}[workload]"))
    advice = advise.advise(advise.Request(str(file), cells=1, seeds="0..2"), 2)
    [line] = setup.told(advice)
    [name] = setup.left_out(advice)
    assert line == f"Linux sets up 8 links for MPTCP at most: {name} is left out"
    backups = advice.chosen.candidate.backups
    assert name in backups if backups else name == "m6"
    setup.write(advice, tmp_path / "files")
    script = (tmp_path / "files/here" / setup.SCRIPT).read_text()
    assert script.count("\nlink ") == 8 and f'"{name}"' not in script
    assert "ip mptcp limits set subflow 8 add_addr_accepted 8\n" in script
    assert "ip mptcp limits set subflow 8 add_addr" in (tmp_path / "files/server" / setup.SCRIPT).read_text()
    assert line in (tmp_path / "files/README").read_text()


@pytest.mark.parametrize(
    ("words", "variables", "is_ours"),
    [
        (["wwan0", "up"], {}, True),
        (["wlan0", "down"], {}, True),
        (["wwan0", "dhcp4-change"], {}, True),
        (["cdc-wdm0", "up"], {"DEVICE_IP_IFACE": "wwan0"}, True),
        ([], {"IFACE": "wlan0"}, True),
        (["wwan0", "pre-up"], {}, False),
        (["wwan", "up"], {}, False),
        (["wwan01", "up"], {}, False),
        (["none", "hostname"], {}, False),
        ([], {}, False),
    ],
)
def test_the_hook_sets_up_again_what_is_ours(
    poor: advise.Advice, tmp_path: Path, words: list[str], variables: dict[str, str], is_ours: bool
) -> None:
    """NetworkManager says the interface and what happened, networkd-dispatcher the interface in a variable."""
    setup.write(poor, tmp_path / "files")
    script = filled_in(tmp_path / "files", "wlan0", "wwan0")
    hook = tmp_path / "files/here" / setup.HOOK
    assert os.access(hook, os.X_OK)
    hook.write_text(hook.read_text().replace(f"/usr/local/sbin/{setup.SCRIPT}", str(script)))
    (tmp_path / "systemctl").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "systemctl").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", **variables}
    done = subprocess.run(["sh", hook, *words], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (f"--no-block restart {setup.UNIT}\n" if is_ours else "")


def test_names_that_are_alike_to_a_shell_have_variables_of_their_own() -> None:
    names = ["my-lte", "my_lte", "my_lte_2", "wifi"]
    variables = setup.variables(names)
    assert list(variables) == names and len(set(variables.values())) == 4
    assert all(value.replace("_", "").isalnum() for value in variables.values())


def test_settings_go_to_the_end_that_they_are_for(poor: advise.Advice, tmp_path: Path) -> None:
    setup.write(poor, tmp_path / "files")
    for end in ("here", "server"):
        lines = (tmp_path / "files" / end / setup.SYSCTL).read_text().splitlines()
        assert lines[1] == "net.mptcp.enabled = 1"
        assert all(" = " in line and "'" not in line for line in lines[1:])
    chosen = [command for command in poor.chosen.candidate.commands if command.startswith("sysctl")]
    assert len(chosen) == sum(
        len((tmp_path / "files" / end / setup.SYSCTL).read_text().splitlines()) - 2 for end in ("here", "server")
    )


def test_nothing_is_overwritten(poor: advise.Advice, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    with pytest.raises(ScenarioError, match="it is there already"):
        setup.check(advise.Request("home.toml"), tmp_path / "files")
    with pytest.raises(ScenarioError, match="it is there already"):
        setup.write(poor, tmp_path / "files")
    assert paths({"path.a.rate": 1, "path.b.rate": 1}) == ["a", "b"]


def test_the_command_writes_them(weft_here: Weft, tmp_path: Path) -> None:
    (tmp_path / "links.toml").write_text(LINKS.format(rate=10, delay=30))
    done = weft_here("advise", "links.toml", "--write", "files")
    assert "begin with files/README" in done.stderr
    assert "alone     " in done.stdout
    assert "mptcpize enable" in (tmp_path / "files/README").read_text()
