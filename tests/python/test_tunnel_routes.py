"""A tunnel sets again the routes that other programs take away, and tells of packets that go beside it."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import namespaces
from ends import ended, wait_until
from namespaces import SERVER, Lab
from test_proxy import until_told
from test_tunnel import PAGE, begin, snapshots, web

ADDRESS = {4: "198.18.77.1", 6: "fd77:6566:7477::1"}
"""Where packets of programs come from that go through the tunnel."""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with namespaces.lab(tmp_path) as made:
        yield made


def is_led(lab: Lab, family: int, device: str = "weft0") -> bool:
    """Tells if packets to the server go by this device, from the tunnel's address if it is the tunnel's."""
    output = lab.run(lab.near, "ip", f"-{family}", "route", "get", SERVER[family]).stdout
    return f"dev {device}" in output and (device != "weft0" or ADDRESS[family] in output)


def until_state(tunnel: subprocess.Popen[str], state: str) -> None:
    """Waits until the snapshots of a tunnel say this."""
    with contextlib.closing(snapshots(tunnel)) as reader:
        assert any(json.loads(line)["state"] == state for line in reader.makefile())


@namespaces.tunnels
def test_what_other_programs_take_away_is_set_again_and_what_they_keep_is_told(lab: Lab, line: str) -> None:
    before = lab.routes()
    lab.run(lab.near, "sysctl", "-w", "net.ipv6.conf.all.disable_ipv6=1")
    _, tunnel = begin(lab, line)
    # IPv6 is switched on when the tunnel is there.
    lab.run(lab.near, "sysctl", "-w", "net.ipv6.conf.all.disable_ipv6=0")
    until_told(tunnel, "the tunnel was missing IPv6 address, IPv6 route, IPv6 rules: set again")
    system = "ip rule add pref 32766 lookup main; ip rule add pref 32767 lookup default"
    for harm, missing in (
        (f"ip rule flush; {system}", "IPv4 rules"),
        ("ip -6 route flush table 51877", "IPv6 route"),
        ("ip link set weft0 down", "device"),
        ("ip address flush dev weft0", "IPv4 address"),
    ):
        lab.run(lab.near, "sh", "-c", harm)
        assert missing in until_told(tunnel, "set again")
        wait_until(lambda: is_led(lab, 4) and is_led(lab, 6))
    for family in (4, 6):
        assert lab.python(lab.near, PAGE, web(family)) == "3000000"
    until_state(tunnel, "relaying")
    # A VPN puts a rule before those of the tunnel: it keeps its own.
    lab.run(lab.near, "ip", "route", "add", "default", "via", "10.9.2.2", "table", "200")
    lab.run(lab.near, "ip", "rule", "add", "pref", "100", "lookup", "200")
    until_told(tunnel, "packets go beside the tunnel: default of IPv4 leads to near2")
    until_state(tunnel, "bypassed")
    lab.run(lab.near, "ip", "rule", "delete", "pref", "100")
    until_told(tunnel, "packets come to the tunnel again")
    until_state(tunnel, "relaying")
    lab.run(lab.near, "ip", "route", "flush", "table", "200")
    tunnel.terminate()
    assert ended(tunnel)[0] == 130
    lab.run(lab.near, "sh", "-c", "for at in 1 2; do ip -6 address add fd09:$at::1/64 dev near$at nodad; done")
    lab.run(lab.near, "ip", "-6", "route", "add", "default", "via", "fd09:1::2")
    assert lab.routes() == before
