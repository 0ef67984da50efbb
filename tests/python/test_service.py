"""Units for systemd."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import Weft
from weftway import service

PROXY = ("proxy", "--to", "192.0.2.1", "--pair", "/dev/null")
RELAY = ("--listen", "4433", "--client", "rate=50Mbit/s")


def test_words_of_a_command_line_are_as_systemd_reads_them() -> None:
    for word, expected in [
        ("--listen", "--listen"),
        ("wlan0,tier=backup", "wlan0,tier=backup"),
        ("100%", "100%%"),
        ("$HOME", "$$HOME"),
        ("two words", '"two words"'),
        ('a "b" \\', '"a \\"b\\" \\\\"'),
        ("a;b", '"a;b"'),
        ("", '""'),
    ]:
        assert service.quoted(word) == expected


@pytest.mark.parametrize(("program", "of_user"), [("relay", False), ("relay", True), ("tunnel", False)])
def test_systemd_takes_the_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, of_user: bool) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here")
    monkeypatch.chdir(tmp_path)
    file = tmp_path / f"weft-{program}.service"
    file.write_text(service.unit(program, [*RELAY, "--identity", "a file"], of_user=of_user))
    verify = ["systemd-analyze", *(["--user"] if of_user else []), "verify", str(file)]
    runtime = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    told = subprocess.run(verify, capture_output=True, text=True, timeout=60, env=runtime)
    said = told.stdout + told.stderr
    if "Failed to" in said and file.name not in said:
        pytest.skip(f"systemd-analyze verifies nothing here: {said}")
    assert file.name not in said, said


def test_a_unit_has_the_options_and_is_hardened(weft_here: Weft, tmp_path: Path) -> None:
    told = weft_here("service", "relay", *RELAY)
    assert told.returncode == 0, told.stderr
    lines = told.stdout.splitlines()
    [command] = [line for line in lines if line.startswith("ExecStart=")]
    assert " -m weftway relay --listen 4433 --client rate=50Mbit/s" in command, command
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


def test_a_unit_of_the_system_has_a_user_of_its_own_and_its_files_from_systemd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "folder_closed_to_others", lambda *_: None)
    files = {"pair": tmp_path / "a 100% line", "passwords": Path("/etc/weft/passwords")}
    options = ["--pair", "line", "--to", "192.0.2.1", "--passwords=mine", "--path", "wlan0"]
    lines = service.unit("proxy", options, of_user=False, files=files).splitlines()
    [command] = [line for line in lines if line.startswith("ExecStart=")]
    assert command.endswith(" proxy --to 192.0.2.1 --path wlan0 --pair %d/pair --passwords %d/passwords"), command
    credentials = [line for line in lines if line.startswith("LoadCredential=")]
    assert credentials == [
        f"LoadCredential=pair:{tmp_path}/a 100%% line",
        "LoadCredential=passwords:/etc/weft/passwords",
    ]
    assert "DynamicUser=yes" in lines and "WorkingDirectory=/" in lines
    assert not any(line.startswith("User=") for line in lines)
    tunnel = service.unit("tunnel", options, of_user=False, files=files).splitlines()
    assert {"User=root", "MemoryMax=75%"} <= set(tunnel) and "DynamicUser=yes" not in tunnel
    assert not {"PrivateUsers=yes", "SystemCallFilter=~@privileged @resources"} & set(tunnel), "it changes routes"


def test_where_the_program_is_closed_to_others_the_unit_is_of_who_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    home.chmod(0o700)
    assert service.folder_closed_to_others(home / "bin" / "python") is not None
    assert service.folder_closed_to_others(Path("/usr/bin/env")) is None
    monkeypatch.setattr(service, "folder_closed_to_others", lambda *_: home)
    files = {"identity": home / "identity.json"}
    lines = service.unit("relay", ["--identity", "mine"], of_user=False, files=files).splitlines()
    assert any(line.startswith("User=") for line in lines) and "DynamicUser=yes" not in lines
    assert any(line.startswith("# As you: ") and str(home) in line for line in lines)
    assert any(line.endswith(" relay --identity mine") for line in lines)


def test_a_unit_is_written_for_the_user(weft_here: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "line").write_text("weft1-something")
    told = weft_here("service", "proxy", "--write", "--to", "192.0.2.1", "--pair", "line", "--path", "wlan0")
    assert told.returncode == 0, told.stderr
    assert "systemctl --user enable --now weft-proxy" in told.stderr
    text = (tmp_path / "config/systemd/user/weft-proxy.service").read_text()
    assert " proxy --to 192.0.2.1 --pair line --path wlan0\n" in text and "WantedBy=default.target" in text
    assert "User=" not in text and "ProtectSystem" not in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["send"], "weft service runs proxy, relay, tunnel, not send"),
        (["tunnel", "--pair", "line"], "--to HOST:PORT"),
        (["tunnel", "--to", "192.0.2.1", "--pair", "line", "--write"], "a tunnel needs root"),
        (["tunnel", "--restore"], "--restore starts nothing"),
        (["proxy", "--pair", "line"], "--to HOST:PORT"),
        (["proxy", "--to", "192.0.2.1"], "--pair FILE"),
        (["proxy", "--to", "192.0.2.1", "--pair", "weft1-secret"], "a pairing line is a password"),
        (["proxy", "--to", "192.0.2.1", "--pair", "-"], "nobody types"),
        (["proxy", "--to", "192.0.2.1", "--pair", "missing"], "there is no such file"),
        (["proxy", "--check", "a:1"], "it is no service"),
        (["relay", "--listne", "4433"], "No such option"),
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
    told = weft_here("service", *options)
    assert told.returncode == 2 and told.stdout == "", told.stdout
    assert words in " ".join(told.stderr.split()), told.stderr
