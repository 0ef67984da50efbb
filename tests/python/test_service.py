"""Units for systemd."""

from pathlib import Path

import pytest

from conftest import Weft

PROXY = ("proxy", "--to", "192.0.2.1", "--pair", "/dev/null")
RELAY = ("--listen", "4433", "--client", "rate=50Mbit/s")


def test_a_unit_has_the_options_and_is_hardened(weft_here: Weft, tmp_path: Path) -> None:
    run = weft_here("service", "relay", *RELAY)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    [command] = [line for line in lines if line.startswith("ExecStart=")]
    assert "/weft-link relay --listen 4433 --client rate=50Mbit/s" in command, command
    expected = {
        "MemoryMax=75%",
        "LimitNOFILE=65536",
        "PrivateUsers=yes",
        "ProcSubset=pid",
        "SystemCallFilter=~@privileged @resources",
        "Type=notify",
        "WatchdogSec=30",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "StateDirectory=weftway",
    }
    assert expected <= set(lines)


def test_files_of_options_and_of_the_configuration_are_known(weft_here: Weft, tmp_path: Path) -> None:
    (tmp_path / "line").write_text("weft1-something")
    (tmp_path / "weft.toml").write_text('[proxy]\nto = "192.0.2.1"\npair = "line"\n')
    run = weft_here("service", "proxy", "--config", "weft.toml", "--path", "wlan0")
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    [command] = [line for line in lines if line.startswith("ExecStart=")]
    if "DynamicUser=yes" in lines:
        assert command.endswith(" proxy --path wlan0 --pair %d/pair --config %d/config"), command
        assert f"LoadCredential=pair:{tmp_path}/line" in lines
    else:  # where the checkout is closed to others
        assert command.endswith(" proxy --config weft.toml --path wlan0"), command
        assert any(line.startswith("User=") for line in lines)


def test_a_unit_is_written_for_the_user(weft_here: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "line").write_text("weft1-something")
    run = weft_here("service", "proxy", "--write", "--to", "192.0.2.1", "--pair", "line", "--path", "wlan0")
    assert run.returncode == 0, run.stderr
    assert "systemctl --user enable --now weft-proxy" in run.stderr
    text = (tmp_path / "config/systemd/user/weft-proxy.service").read_text()
    assert " proxy --to 192.0.2.1 --pair line --path wlan0\n" in text and "WantedBy=default.target" in text
    assert "User=" not in text and "ProtectSystem" not in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["send"], "weft service runs proxy, relay, tunnel, pipe, not send"),
        (["tunnel", "--pair", "line"], "--to HOST:PORT"),
        (["tunnel", "--to", "192.0.2.1", "--pair", "line", "--write"], "a tunnel needs root"),
        (["pipe", *PROXY[1:], "--listen", "9000"], "both for each pipe: 1 and 0 are given"),
        (["relay", "--allow-pipe", "bogus"], "--allow-pipe: bogus is no target of pipes"),
        (["tunnel", "--restore"], "--restore starts nothing"),
        (["proxy", "--pair", "line"], "--to HOST:PORT"),
        (["proxy", "--to", "192.0.2.1"], "--pair FILE"),
        (["proxy", "--to", "192.0.2.1", "--pair", "weft1-secret"], "a pairing line is a password"),
        (["proxy", "--to", "192.0.2.1", "--pair", "-"], "nobody types"),
        (["proxy", "--to", "192.0.2.1", "--pair", "missing"], "there is no such file"),
        (["proxy", "--check", "a:1"], "it is no service"),
        (["relay", "--listne", "4433"], "--listne"),
        (["relay", "--listen", "99999"], "a port is a number up to 65535"),
        (["relay", "--client", "laptop"], "laptop"),
        (["relay", "--allow", "bogus"], "bogus"),
        (["relay", "--dns", "bogus"], "--dns bogus"),
        (["relay", "--identity", "missing"], "--identity missing: there is no such file"),
        ([*PROXY, "--path", "wlan0,tier=bogus"], "bogus"),
        ([*PROXY, "--scheduler", "bogus"], "bogus"),
        ([*PROXY, "--cc", "bogus"], "bogus"),
        ([*PROXY, "--listen", "99999"], "a port is a number up to 65535"),
        ([*PROXY, "--classes", "nowhere"], "nowhere"),
        ([*PROXY, "--metrics", "99999"], "a port is a number up to 65535"),
        (["proxy", "--to", "192.0.2.1:99999", "--pair", "/dev/null"], "a port is a number up to 65535"),
        (["tunnel", *PROXY[1:], "--only", "bogus"], "--only bogus"),
        (["tunnel", *PROXY[1:], "--dns", "bogus"], "--dns bogus"),
        (["tunnel", *PROXY[1:], "--device", "a/b"], "--device a/b"),
    ],
)
def test_what_makes_no_sense_in_a_unit_is_refused(weft_here: Weft, options: list[str], words: str) -> None:
    run = weft_here("service", *options)
    assert run.returncode == 2 and run.stdout == "", run.stdout
    assert words in " ".join(run.stderr.split()), run.stderr
