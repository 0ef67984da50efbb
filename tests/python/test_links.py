"""Links with tiers, caps and prices, as a person gives them to `weft send` and `weft proxy`."""

import json
from pathlib import Path

import pytest

from conftest import Weft
from ends import Start, ended, port

REFUSED = {
    "tier=bakcup": "did you mean `backup`?",
    "teir=backup": "`teir` says nothing of a link; what does is tier, cap, price; did you mean `tier`?",
    "cap=10GB": "in which time? For example cap=10GB/month",
    "cap=10GB/week": "`cap` is one of day, month, not `week`",
    "price=4": "has no unit",
    "tier=never": "every --path has tier=never",
}


@pytest.mark.parametrize("words", REFUSED)
@pytest.mark.parametrize("verb", ["send", "proxy"])
def test_what_makes_no_sense_is_refused_in_one_line(weft_here: Weft, tmp_path: Path, verb: str, words: str) -> None:
    (tmp_path / "file").write_text("x")
    line = weft_here("pair", "--identity", "me").stdout.strip()
    verb_and_what = ["send", "file"] if verb == "send" else ["proxy", "--listen", "0"]
    run = weft_here(*verb_and_what, "--to", f"127.0.0.1:{port()}", "--pair", line, "--path", f"127.0.0.1,{words}")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("weft: ") and run.stderr.count("\n") == 1
    assert REFUSED[words] in run.stderr, run.stderr


def test_an_end_that_listens_has_no_policy(weft_here: Weft, tmp_path: Path) -> None:
    weft_here("pair", "--identity", "me")
    run = weft_here("recv", "inbox", "--identity", "me", "--listen", "127.0.0.1:0", "--path", "127.0.0.1,tier=backup")
    assert run.returncode == 2
    assert "for the end that connects" in run.stderr


def test_a_cap_is_counted_in_a_file_that_the_next_program_reads(
    weft: Weft, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    line = weft("pair", "--identity", "me").stdout.strip()
    (tmp_path / "file").write_bytes(bytes(range(256)) * 30_000)
    links = ("--path", "127.0.0.1", "--path", "127.0.0.2,cap=4MB/month,price=4/GB")

    def send() -> tuple[str, dict[str, float]]:
        at = f"127.0.0.1:{port()}"
        receiver = start("recv", "inbox", "--once", "--listen", at, "--identity", "me", "--no-sync")
        (tmp_path / "inbox" / "file").unlink(missing_ok=True)
        sent = weft("send", "file", "--to", at, "--pair", line, *links, "--scheduler", "round-robin", "--json")
        assert (sent.returncode, ended(receiver)[0]) == (0, 0), sent.stderr
        paths = json.loads(sent.stdout)[0]["paths"]
        carried = [path["policy"] for path in paths if path["path"] == "127.0.0.2"]
        return sent.stderr, carried[0] if carried else {"carried": 0, "cost": 0}

    # How soon the link opens and how fast the other one is decides how many programs share the cap.
    text, carried = "", 0.0
    for _ in range(30):
        text, link = send()
        carried += link["carried"]
        assert link["cost"] == pytest.approx(link["carried"] * 4e-9)
        counted = json.loads((tmp_path / "state/weftway/usage.json").read_text())["127.0.0.2"]
        assert carried <= counted["month_bytes"] <= 4_000_000
        if "is closed" in text:
            break
    assert "127.0.0.2 is closed: it has used up its 4 MB per month (UTC)" in text
    assert carried > 3_500_000
