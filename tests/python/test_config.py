"""`--config weft.toml`: options of a command in a file."""

from pathlib import Path

import pytest

from conftest import Weft
from ends import Start, port
from test_proxy import BODY, get, until_told, website

__all__ = ["website"]

TABLES = ("proxy", "relay", "tunnel", "recv")
"""The commands that take a file; each has its table."""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[proxy]\npaht = "a"', "weft.toml: [proxy] paht: weft proxy has no such option; did you mean path?"),
        ('[proxy]\nlocal = "a"', "[proxy] local: weft proxy has no such option"),
        ('[proxy]\nconfig = "a"', "[proxy] config: weft proxy has no such option"),
        (
            "[proxy]\nzzz = 1",
            "its keys are cc, check, classes, initial-window, json, listen, metrics, pair, passwords, path, scheduler",
        ),
        ("[prxy]", "weft.toml: [prxy]: the tables are [proxy], [pipe], [relay], [tunnel], [recv]"),
        ("[relay]", "weft.toml has no table [proxy]"),
        ("proxy = 1", "as in [proxy]"),
        ("[proxy]\njson = 1", "[proxy] json: it is true or false"),
        ("[proxy]\nscheduler = true", "[proxy] scheduler: it is a text"),
        ('[proxy]\nscheduler = ["a"]', "[proxy] scheduler: it is a text"),
        ("[proxy]\npath = [1.5]", '[proxy] path: it is a text, "…", or several'),
        ("[proxy\n", "weft.toml: unclosed table, expected `]` (line 1)"),
        ('[proxy]\nscheduler = "ecf"', "weft proxy needs --to"),
    ],
)
def test_what_makes_no_sense_is_told_with_its_place(weft_here: Weft, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "weft.toml").write_text(text, encoding="utf-8")
    run = weft_here("proxy", "--config", "weft.toml")
    assert run.returncode == 2 and words in " ".join(run.stderr.split()), run.stderr
    assert len(run.stderr.splitlines()) == 1, run.stderr


def test_a_file_that_is_not_there_is_named(weft_here: Weft) -> None:
    run = weft_here("relay", "--config", "missing.toml")
    assert run.returncode == 1 and "missing.toml: No such file" in run.stderr


@pytest.mark.parametrize("program", TABLES)
def test_every_command_with_a_table_takes_a_file(weft_here: Weft, tmp_path: Path, program: str) -> None:
    (tmp_path / "weft.toml").write_text(f"[{program}]\nnothing = 1\n")
    run = weft_here(program, "--config", "weft.toml")
    assert run.returncode == 2 and f"[{program}] nothing: weft {program} has no such option" in run.stderr


def test_a_service_takes_its_options_from_a_file(weft_here: Weft, tmp_path: Path) -> None:
    (tmp_path / "line").write_text("weft1-something")
    (tmp_path / "weft.toml").write_text('[proxy]\nto = "192.0.2.1"\npair = "line"\n')
    run = weft_here("service", "proxy", "--config", "weft.toml")
    assert run.returncode == 0 and "weft-link proxy --pair %d/pair --config %d/config\n" in run.stdout, run.stderr
    (tmp_path / "weft.toml").write_text('[proxy]\nto = "192.0.2.1"\n')
    run = weft_here("service", "proxy", "--config", "weft.toml")
    assert run.returncode == 2 and "--pair FILE" in run.stderr


def test_both_ends_run_from_one_file(start: Start, line: str, website: int, tmp_path: Path) -> None:
    at, local = f"127.0.0.1:{port()}", port()
    (tmp_path / "line").write_text(line)
    (tmp_path / "line").chmod(0o600)
    (tmp_path / "weft.toml").write_text(
        f"""
[relay]
listen = "{at}"
identity = "me"
allow = ["127.0.0.0/8"]

[proxy]
to = "{at}"
pair = "line"
path = ["127.0.0.1", "127.0.0.2"]
listen = {local}
"""
    )
    start("relay", "--config", "weft.toml")
    until_told(start("proxy", "--config", "weft.toml"), "connected to the relay")
    assert get(local, "127.0.0.1", website) == (200, BODY)


MARK = "\ufeff"


def test_a_mark_of_utf_8_is_no_fault_of_a_file(tmp_path: Path, weft: Weft) -> None:
    """Notepad and PowerShell write one, and ends of lines of their own."""
    (tmp_path / "weft.toml").write_bytes(f'{MARK}[proxy]\r\nto = "127.0.0.1:9"\r\n'.encode())
    (tmp_path / "rules.toml").write_bytes(f'{MARK}[[rule]]\r\nport = 443\r\nclass = "realtime"\r\n'.encode())
    run = weft("proxy", "--config", "weft.toml", "--classes", "rules.toml", "--check", "example.org:443")
    assert (run.returncode, "number 1" in run.stdout) == (0, True), run.stderr
    (tmp_path / "line").write_bytes(f"{MARK}weft1-anything\r\n".encode())
    run = weft("proxy", "--to", "127.0.0.1:9", "--pair", "line")
    assert run.returncode == 2 and "this is no line of `weft pair`" in run.stderr, run.stderr
    (tmp_path / "wide").write_bytes("weft1-anything".encode("utf-16"))
    run = weft("proxy", "--to", "127.0.0.1:9", "--pair", "wide")
    assert run.returncode == 2 and "save it as UTF-8" in run.stderr, run.stderr
