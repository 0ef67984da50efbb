"""A tunnel sets again the routes that other programs take away, and tells of packets that go beside it."""

import contextlib
import select
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import namespaces
from ends import ended, wait_until
from namespaces import SERVER, Lab
from test_proxy import until_told
from test_tunnel import PAGE, RELAY, begin, web
from weftway import routing, routing_check, routing_watch
from weftway.routing import Plan, part
from weftway.routing_check import Shown
from weftway.routing_watch import MOST_MENDS, Mender
from weftway.status import local_socket
from weftway.status.local_socket import Reader

PLAN = Plan("weft0", 1500, RELAY)

# As `ip -json -N` of iproute2 6.1 printed them.
DEVICE = '"ifname":"weft0","flags":["POINTOPOINT","MULTICAST","NOARP","UP","LOWER_UP"],"mtu":1500'
ADDRESSES = {
    4: f'[{{{DEVICE},"addr_info":[{{"family":"inet","local":"198.18.77.1","prefixlen":32,"label":"weft0"}}]}}]',
    6: f'[{{{DEVICE},"addr_info":[{{"family":"inet6","local":"fd77:6566:7477::1","prefixlen":128,"nodad":true}}]}}]',
}
RULES = {
    4: '[{"priority":0,"src":"all","table":"255"},'
    '{"priority":4400,"src":"all","dst":"192.0.2.1","ipproto":"ipproto-17","dport":4433,"goto":4499},'
    '{"priority":4401,"src":"all","ipproto":"ipproto-17","dport":53,"table":"51877"},'
    '{"priority":4402,"src":"all","ipproto":"ipproto-6","dport":53,"table":"51877"},'
    '{"priority":4403,"src":"all","dst":"198.18.77.2","table":"51877"},'
    '{"priority":4404,"src":"all","table":"254","suppress_prefixlen":0},'
    '{"priority":4405,"src":"all","table":"51877"},'
    '{"priority":4499,"src":"all","nop":null},'
    '{"priority":32766,"src":"all","table":"254"},{"priority":32767,"src":"all","table":"253"}]',
    6: '[{"priority":0,"src":"all","table":"255"},'
    '{"priority":4400,"src":"all","dst":"2001:db8::1","ipproto":"ipproto-17","dport":4433,"goto":4499},'
    '{"priority":4401,"src":"all","ipproto":"ipproto-17","dport":53,"table":"51877"},'
    '{"priority":4402,"src":"all","ipproto":"ipproto-6","dport":53,"table":"51877"},'
    '{"priority":4403,"src":"all","table":"254","suppress_prefixlen":0},'
    '{"priority":4404,"src":"all","table":"51877"},'
    '{"priority":4499,"src":"all","nop":null},{"priority":32766,"src":"all","table":"254"}]',
}
ROUTES = {
    4: '[{"dst":"default","dev":"weft0","scope":"253","flags":[]}]',
    6: '[{"dst":"default","dev":"weft0","metric":1024,"flags":[],"pref":"medium"}]',
}


def printed(family: int, *changes: tuple[str, str]) -> str:
    """Output of `ip` for one family, with texts replaced."""
    text = "\n".join([ADDRESSES[family], RULES[family], ROUTES[family], f"[{{{DEVICE}}}]"])
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text + "\n"


@pytest.fixture(autouse=True)
def both_families(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "families", lambda _: [4, 6])
    monkeypatch.setattr(routing_check, "families", lambda _: [4, 6])


def missing(v4: str, v6: str, plan: Plan = PLAN) -> list[str]:
    return routing_check.missing(plan, {4: Shown.read(v4), 6: Shown.read(v6)})


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ([], []),
        ([('{"priority":4499,"src":"all","nop":null},', "")], ["-4 rule add pref 4499 nop"]),
        # A jump to a rule that is not there.
        ([('"goto":4499', '"goto":4499,"unresolved":null')], ["-4 rule add pref 4400 to 192.0.2.1 … goto 4499"]),
        # Another program's rule in the place of one of ours.
        ([('"dst":"198.18.77.2"', '"dst":"198.18.77.3"')], ["-4 rule add pref 4403 to 198.18.77.2 lookup 51877"]),
        ([('"table":"51877"}', '"table":"200"}')], ["4401", "4402", "4403", "4405"]),
        ([('"src":"all","table":"51877"', '"src":"10.0.0.7","table":"51877"')], ["4405"]),
        ([(ROUTES[4], "[[")], ["-4 route add default dev weft0 table 51877"]),
        ([('"dev":"weft0"', '"dev":"eth0"')], ["-4 route add default dev weft0 table 51877"]),
        ([(ADDRESSES[4], "[]")], ["-4 address add 198.18.77.1/32 dev weft0"]),
        ([('"UP",', "")], ["link set dev weft0 mtu 1500 up"]),
        ([('"mtu":1500', '"mtu":1280')], ["link set dev weft0 mtu 1500 up"]),
        ([(ADDRESSES[4], ""), (f"[{{{DEVICE}}}]", "")], ["-4 address", "link set"]),
    ],
)
def test_what_is_missing_is_seen(changes: list[tuple[str, str]], lines: list[str]) -> None:
    # A list that ended in an error is glued to the next line.
    text = printed(4, *changes).replace("[[\n[", "[[")
    found = missing(text, printed(6))
    assert len(found) == len(lines), found
    for line, wanted in zip(found, lines, strict=True):
        assert all(word in line for word in wanted.split(" … ")), line


def test_of_a_family_that_was_switched_on_meanwhile_all_is_missing() -> None:
    found = routing_check.missing(PLAN, {4: Shown.read(printed(4))})
    assert found == [line for line in [*PLAN.addresses(), *PLAN.routes()] if line.startswith("-6")]


def test_ports_and_networks_of_a_part_are_compared() -> None:
    plan = Plan("weft0", 1500, (), only=tuple(map(part, ["10.0.0.0/8:80-90", ":443"])), names=False)
    rules = (
        '[{"priority":4400,"src":"all","dst":"10.0.0.0","dstlen":8,"ipproto":"ipproto-6","dport_start":80,"dport_end":90,'
        '"table":"51877"},{"priority":4401,"src":"all","dst":"10.0.0.0","dstlen":8,"ipproto":"ipproto-17",'
        '"dport_start":80,"dport_end":90,"table":"51877"},{"priority":4402,"src":"all","ipproto":"ipproto-6",'
        '"dport":443,"table":"51877"},{"priority":4403,"src":"all","ipproto":"ipproto-17","dport":443,"table":"51877"},'
        '{"priority":4499,"src":"all","nop":null}]'
    )
    v6 = rules.replace("4402", "4400").replace("4403", "4401")
    assert missing(printed(4, (RULES[4], rules)), printed(6, (RULES[6], v6)), plan) == []
    (line,) = missing(
        printed(4, (RULES[4], rules.replace('"dport_end":90', '"dport_end":91', 1))), printed(6, (RULES[6], v6)), plan
    )
    assert line == "-4 rule add pref 4400 to 10.0.0.0/8 ipproto tcp dport 80-90 lookup 51877"


@pytest.mark.parametrize(
    ("route", "is_beside"),
    [
        ('{"dst":"default","dev":"weft0","table":"51877"}', False),
        ('{"dst":"default","dev":"near1","table":"200"}', True),
        # A default route in halves, as VPN programs set it; a network that the machine knows better.
        ('{"dst":"0.0.0.0/1","dev":"tun0"}', True),
        ('{"dst":"1.0.0.0/8","dev":"near1"}', False),
        ('{"type":"unreachable","dst":"default","dev":"lo"}', False),
    ],
)
def test_where_packets_go_is_asked(monkeypatch: pytest.MonkeyPatch, route: str, is_beside: bool) -> None:
    """The first of the questions is answered with an error, as that for an address without a route is."""
    plan = Plan("weft0", 1500, RELAY, names=False)

    def ask(_: int, lines: list[str]) -> subprocess.CompletedProcess[str]:
        answers = "".join(f"[{route}]\n" for _ in lines[1:])
        return subprocess.CompletedProcess([], 1, answers, "RTNETLINK answers: No route to host\nCommand failed -:1\n")

    monkeypatch.setattr(routing_check, "_ask", ask)
    assert (routing_check.beside(plan) is not None) == is_beside


class Played:
    """A machine of which another program takes rules away."""

    def __init__(self) -> None:
        self.gone: list[str] = []
        self.route: str | None = None
        self.made: list[list[str]] = []
        self.complaint = ""

    def missing(self) -> list[str]:
        return list(self.gone)

    def make(self, missing: list[str]) -> str:
        self.made.append(missing)
        if not self.complaint:
            self.gone = []
        return self.complaint

    def beside(self) -> str | None:
        return self.route


RULE = "-4 rule add pref 4405 lookup 51877"


def test_what_was_taken_is_set_again_and_told_once() -> None:
    played = Played()
    mender = Mender(played, 0.0)
    assert mender.turn(1.0) == [] and played.made == []
    played.gone = [RULE, "-6 route add default dev weft0 table 51877", "link set dev weft0 mtu 1500 up"]
    told = "the tunnel was missing IPv4 rules, IPv6 route, device: set again"
    assert mender.turn(2.0) == [told]
    played.gone = list(played.made[0])
    assert mender.turn(3.0) == [] and len(played.made) == 2
    assert not mender.is_astray


def test_a_fight_with_another_program_is_bounded_and_told() -> None:
    """A second apart it gives way after a few; then it tries once in half a minute, and says so once in ten minutes."""
    played = Played()
    mender = Mender(played, 0.0)
    notes: list[str] = []
    for second in range(600):
        played.gone = [RULE]
        notes += mender.turn(float(second))
        assert mender.is_astray == bool(played.gone)
    # 10 at once, and one each half a minute: 600 / 30.
    assert len(played.made) in range(MOST_MENDS + 19, MOST_MENDS + 21)
    why = "packets go beside the tunnel: another program takes away IPv4 rules again and again"
    assert notes == ["the tunnel was missing IPv4 rules: set again", why, "packets come to the tunnel again"]


def test_what_cannot_be_set_again_is_told_with_its_reason() -> None:
    played = Played()
    played.gone, played.complaint = (
        [RULE, routing_watch.KILL_SWITCH],
        "RTNETLINK answers: Operation not permitted\nmore",
    )
    mender = Mender(played, 0.0, kill_switch=True)
    (told,) = mender.turn(0.0)
    assert told.startswith("packets do not reach the tunnel: missing IPv4 rules, kill switch (RTNETLINK")
    assert mender.is_astray


def test_what_was_told_long_ago_is_forgotten() -> None:
    played = Played()
    mender = Mender(played, 0.0)
    for at in range(1000):
        played.route = f"10.0.{at}.0/24 of IPv4 leads to wg0"
        assert len(mender.turn(float(at))) == 1
    assert len(mender._told) <= routing_watch.REPEAT_S


def test_a_look_that_fails_is_told_and_the_next_one_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played()
    mender = Mender(played, 0.0)

    def fail() -> list[str]:
        raise OSError(12, "Cannot allocate memory")

    with monkeypatch.context() as failing:
        failing.setattr(played, "missing", fail)
        assert mender.turn(0.0) == ["the tunnel's routes cannot be looked at: Cannot allocate memory"]
        assert mender.turn(1.0) == []
    played.gone = [RULE]
    assert mender.turn(2.0) == ["the tunnel was missing IPv4 rules: set again"]


def test_rules_of_others_before_those_of_the_tunnel_are_told() -> None:
    played = Played()
    played.route = "default of IPv4 leads to wg0"
    mender = Mender(played, 0.0)
    why = "packets go beside the tunnel: default of IPv4 leads to wg0, by a rule or a route of another program"
    assert (mender.turn(1.0), mender.is_astray) == ([why], True)
    assert (mender.turn(2.0), mender.is_astray) == ([], True)
    played.route = None
    assert (mender.turn(3.0), mender.is_astray) == (["packets come to the tunnel again"], False)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with namespaces.lab(tmp_path) as made:
        yield made


def is_led(lab: Lab, family: int, device: str = "weft0") -> bool:
    """Tells if packets to the server go by this device, from the tunnel's address if it is the tunnel's."""
    told = lab.run(lab.near, "ip", f"-{family}", "route", "get", SERVER[family]).stdout
    return f"dev {device}" in told and (device != "weft0" or routing.ADDRESS[family] in told)


def until_state(tunnel: subprocess.Popen[str], state: str) -> None:
    """Waits until the snapshots of a tunnel say this."""
    with contextlib.closing(Reader(local_socket.folder() / f"tunnel-{tunnel.pid}.sock")) as reader:

        def is_told() -> bool:
            select.select([reader], [], [], 1)
            snapshot = reader.read()
            return snapshot is not None and snapshot["state"] == state

        wait_until(is_told)


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
