"""Which class a connection has, and files of rules that make no sense."""

from pathlib import Path

import pytest

from conftest import Weft


@pytest.mark.parametrize(
    ("target", "first"),
    [
        ("example.org:443", "example.org:443 over TCP is bulk; the rule that decides is: all else"),
        ("example.org:22", "example.org:22 over TCP is interactive; the rule that decides is: SSH and DNS"),
        ("udp:192.0.2.1:443", "192.0.2.1:443 over UDP is realtime; the rule that decides is: UDP"),
        (
            "example.org:22,dscp=8",
            "example.org:22 over TCP with DSCP CS1 is bulk; the rule that decides is: marked CS1 or LE",
        ),
        (
            "udp:192.0.2.1:53,dscp=ef",
            "192.0.2.1:53 over UDP with DSCP EF is realtime; the rule that decides is: marked EF, VA or CS4 to CS7",
        ),
        ("udp:[2001:db8::1]:53", "[2001:db8::1]:53 over UDP is interactive; the rule that decides is: SSH and DNS"),
    ],
)
def test_a_check_says_which_rule_decides_and_starts_nothing(weft_here: Weft, target: str, first: str) -> None:
    run = weft_here("proxy", "--check", target)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines()[0] == first


def test_the_first_rule_of_a_file_that_is_for_a_connection_decides(weft_here: Weft, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[rule]]\nname = "copies"\nport = 22\nhost = "*.example.org"\nclass = "bulk"\n'
        '[[rule]]\ntransport = "udp"\nport = "6000-6010"\nclass = "bulk"\n'
        '[[rule]]\nname = "video"\ndscp = ["AF31-AF43", 5]\nclass = "realtime"\n'
    )
    for target, words in [
        ("a.example.org:22", "is bulk; the rule that decides is: copies"),
        ("example.org:22", "is interactive; the rule that decides is: SSH and DNS"),
        ("udp:192.0.2.1:6010", "is bulk; the rule that decides is: number 2"),
        ("192.0.2.1:6010", "is bulk; the rule that decides is: all else"),
        ("192.0.2.1:6010,dscp=AF41", "is realtime; the rule that decides is: video"),
        ("192.0.2.1:6010,dscp=5", "is realtime; the rule that decides is: video"),
        ("192.0.2.1:6010,dscp=AF23", "is bulk; the rule that decides is: all else"),
    ]:
        assert words in weft_here("proxy", "--classes", str(rules), "--check", target).stdout, target


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[rule]]\nclass = "bluk"\n', ["line 2", "did you mean `bulk`?"]),
        ('[[rule]]\nclass = "bulk"\nprot = 22\n', ["line 3", "unknown field `prot`"]),
        ('[[rule]]\nclass = "bulk"\nport = 70000\n', ["line 3", "a port from 1 to 65535"]),
        ('[[rule]]\nclass = "bulk"\ndscp = "CS9"\n', ["line 3", "EF, CS5, AF41 or a number from 0 to 63"]),
        ('[[rule]]\nclass = "bulk"\ndscp = 64\n', ["line 3", "EF, CS5, AF41 or a number from 0 to 63"]),
        ('[[rule]]\nclass = "bulk"\ndscp = "CS7-CS4"\n', ["line 3", "EF, CS5, AF41 or a number from 0 to 63"]),
        ("[[rule]\n", ["line 1"]),
    ],
)
def test_rules_that_make_no_sense_are_refused_with_their_place(
    weft_here: Weft, tmp_path: Path, text: str, words: list[str]
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(text)
    run = weft_here("proxy", "--to", "192.0.2.1", "--pair", "weft1-x", "--classes", str(rules))
    assert run.returncode == 2 and run.stdout == ""
    assert all(word in run.stderr for word in ["rules.toml: ", *words]), run.stderr


@pytest.mark.parametrize(
    "target", ["example.org", "example.org:0", "udp:example.org", "a b:80", "", "a.b:80,dscp=CS8", "a.b:80,dscp="]
)
def test_what_is_no_target_is_refused(weft_here: Weft, target: str) -> None:
    run = weft_here("proxy", "--check", target)
    assert run.returncode == 2 and run.stderr.startswith("weft: "), run.stderr


def test_a_proxy_needs_a_relay(weft_here: Weft) -> None:
    run = weft_here("proxy")
    assert run.returncode == 2 and "--to HOST:PORT" in run.stderr
