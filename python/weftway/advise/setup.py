"""Files that make the advice last: for systemd and sysctl.d, one folder for each end.

`weft advise` prints commands, which a restart forgets. These files also have what MPTCP needs before anything can be
advised: an endpoint for each link, limits, and a rule by which packets leave through the link of their address. A link
that reconnects loses its routes, and may get another address: so the script runs again at each change.
"""

from itertools import chain, count
from pathlib import Path
from textwrap import dedent

from weftway._native import ScenarioError
from weftway.runs import seeds
from weftway.runs.store import try_writing, whole

from .candidates import LINUX, paths
from .runs import Advice, Request, keys_of
from .words import end_of

HERE, SERVER = "here", "server"
UNIT = "weftway-mptcp.service"
SCRIPT = "weftway-mptcp"
HOOK = "50-weftway-mptcp"
SYSCTL = "90-weftway-mptcp.conf"
FIRST_TABLE = 7100
"""Routing tables from here on are ours, one for each link."""

MOST_LINKS = 8
"""Endpoints for which Linux has room, and subflows that a connection may have (`MPTCP_PM_ADDR_MAX`)."""


def check(request: Request, folder: Path) -> None:
    """Refuses a folder that cannot be written, and advice too uncertain for files that last, before any run."""
    if request.place != LINUX:
        raise ScenarioError("--write DIR writes what Linux needs; leave out --deployable and --for")
    _refuse_existing(folder)
    if request.added:
        raise ScenarioError("--write DIR sets up the links that there are; leave out --add")
    least, count = Request(""), len(seeds.parse(request.seeds))
    enough = len(seeds.parse(least.seeds))
    if request.cells < least.cells or count < enough:
        raise ScenarioError(
            f"--write {folder}: files that last need {least.cells} cells and {enough} seeds at least, as without "
            f"--cells and --seeds; fewer may advise another link ({request.cells} cells, {count} seeds)"
        )
    try_writing(folder.parent)


def _refuse_existing(folder: Path) -> None:
    if folder.exists():
        raise ScenarioError(f"--write {folder}: it is there already; name a folder that is not")


def write(advice: Advice, folder: Path) -> list[Path]:
    """Writes the files into a folder that is not there yet; returns them."""
    _refuse_existing(folder)
    names = _set_up(advice)
    texts = {
        f"{HERE}/{SCRIPT}": _here(advice, names),
        f"{HERE}/{UNIT}": _unit(),
        f"{HERE}/{HOOK}": _hook(),
        f"{HERE}/{SYSCTL}": _sysctl(advice, "here"),
        f"{SERVER}/{SCRIPT}": _server(names),
        f"{SERVER}/{UNIT}": _unit(),
        f"{SERVER}/{SYSCTL}": _sysctl(advice, "on the server"),
        "README": _readme(advice, names),
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with whole(folder / name) as half:
            half.write_text(text, encoding="utf-8")
            half.chmod(0o755 if name.endswith(SCRIPT) else 0o644)
    return [folder / name for name in texts]


def left_out(advice: Advice) -> list[str]:
    """The links for which Linux has no room. Backups are left out first."""
    names = paths(keys_of(advice.scenario))
    return sorted(names, key=lambda name: name in advice.chosen.candidate.backups)[MOST_LINKS:]


def told(advice: Advice) -> list[str]:
    """A line, if links are left out."""
    out = left_out(advice)
    rest = f"{', '.join(out)} {'is' if len(out) == 1 else 'are'} left out"
    return [f"Linux sets up {MOST_LINKS} links for MPTCP at most: {rest}"] if out else []


def _set_up(advice: Advice) -> list[str]:
    """The links that are set up, in the scenario's order."""
    out = left_out(advice)
    return [name for name in paths(keys_of(advice.scenario)) if name not in out]


def _sysctl(advice: Advice, end: str) -> str:
    own = [command for command in advice.chosen.candidate.commands if command.startswith("sysctl -w ")]
    lines = ["net.mptcp.enabled = 1"]
    for command in own:
        if end_of(command, advice.is_upload) == end:
            key, _, value = command.removeprefix("sysctl -w ").partition("=")
            lines.append(f"{key} = {value.strip(chr(39))}")
    return "\n".join([f"# What `weft advise` says of {advice.request.scenario}. Goes into /etc/sysctl.d.", *lines, ""])


def _here(advice: Advice, names: list[str]) -> str:
    backups = advice.chosen.candidate.backups
    own = variables(names)
    links = [f"link {own[name]} {table} {'backup' * (name in backups)}".rstrip() for table, name in _tables(names)]
    interfaces = [f'{own[name]}="{name}"   # the interface of {name}' for name in names]
    head = dedent("""\
        #!/bin/sh
        # MPTCP over these links. Fill in the interfaces; addresses and routers are read from them.
        set -eu
        """)
    body = dedent("""\

        # Packets leave through the link of their address; MPTCP may open a subflow on it.
        link() { # name, routing table, flags
            eval "device=\\$interface_$1"
            address=$(ip -4 -o address show dev "$device" scope global | awk '{ sub("/.*", "", $4); print $4; exit }')
            twice=""
            case "$addresses " in *" ${address:-none} "*)
                echo "weftway-mptcp: $device is left out: another link has its address, $address. MPTCP tells links" \\
                    "apart by their addresses; give the modems different networks" >&2
                twice=yes address="" ;;
            esac
            router=$(ip -4 route show default dev "$device" | awk '$2 == "via" { print $3; exit }')
            if [ "$(ip -4 rule show table "$2" | awk '{ print $3 }')" != "$address" ]; then
                while ip -4 rule del table "$2" 2>/dev/null; do :; done
                ip -4 route flush table "$2" 2>/dev/null || true
                [ -z "$address" ] || ip -4 rule add from "$address" table "$2"
            fi
            [ -z "$twice" ] || return 0
            [ -n "$address" ] || { echo "weftway-mptcp: $device has no address" >&2; return 0; }
            ip -4 route show dev "$device" proto kernel scope link | while read -r net _; do
                ip -4 route replace "$net" dev "$device" table "$2"
            done
            ip -4 route replace default ${router:+via "$router"} dev "$device" table "$2"
            # An endpoint that is right stays: taking it away would end its subflows.
            ip mptcp endpoint show | grep -q "^$address id [0-9]* subflow ${3:+$3 }dev $device *\\$" || {
                remove "$address"
                ip mptcp endpoint add "$address" dev "$device" subflow ${3:+"$3"}
            }
            addresses="$addresses $address"
        }

        remove() { # the endpoint of an address
            ip mptcp endpoint show | awk -v address="$1" '$1 == address { print $3 }' | while read -r id; do
                ip mptcp endpoint delete id "$id"
            done
        }

        addresses=""
        # An endpoint whose address no interface has takes the place of another.
        ip mptcp endpoint show | while read -r address _; do
            [ -n "$(ip -o address show to "$address")" ] || remove "$address"
        done
        """)
    limits = f"ip mptcp limits set subflow {len(names)} add_addr_accepted {len(names)}\n"
    calls = "".join(f"{link}\n" for link in links)
    rest = dedent("""\

        # Addresses that are no more.
        ip mptcp endpoint show | while read -r address _; do
            case "$addresses " in *" $address "*) ;; *) remove "$address" ;; esac
        done
        """)
    return head + "".join(f"interface_{line}\n" for line in interfaces) + body + limits + calls + rest


def _tables(names: list[str]) -> list[tuple[int, str]]:
    return list(enumerate(names, FIRST_TABLE))


def variables(names: list[str]) -> dict[str, str]:
    """The links' names as parts of variables', no two alike.

    >>> variables(["my-lte", "my_lte", "wifi"])
    {'my-lte': 'my_lte', 'my_lte': 'my_lte_2', 'wifi': 'wifi'}
    """
    variables: dict[str, str] = {}
    for name in names:
        plain = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name)
        spellings = chain([plain], (f"{plain}_{number}" for number in count(2)))
        variables[name] = next(spelling for spelling in spellings if spelling not in variables.values())
    return variables


def _server(names: list[str]) -> str:
    return dedent(f"""\
        #!/bin/sh
        # The server lets a client open a subflow for each of its links.
        set -eu
        ip mptcp limits set subflow {len(names)} add_addr_accepted 0
        """)


def _hook() -> str:
    return dedent(f"""\
        #!/bin/sh
        # Sets up MPTCP again when a link comes, goes or gets another address. NetworkManager tells the interface and
        # what happened in two words, networkd-dispatcher the interface in IFACE.
        case "${{2:-up}}" in up | down | dhcp4-change) ;; *) exit 0 ;; esac
        for device in "${{DEVICE_IP_IFACE:-}}" "${{1:-}}" "${{IFACE:-}}"; do
            if [ -n "$device" ] && grep -qw "^interface_[A-Za-z0-9_]*=[\\"']*$device" /usr/local/sbin/{SCRIPT}; then
                exec systemctl --no-block restart {UNIT}
            fi
        done
        """)


def _unit() -> str:
    return dedent(f"""\
        [Unit]
        Description=MPTCP endpoints and limits
        Wants=network-online.target
        After=network-online.target
        # Links may come and go often.
        StartLimitIntervalSec=0

        [Service]
        Type=oneshot
        RemainAfterExit=yes
        ExecStart=/usr/local/sbin/{SCRIPT}

        [Install]
        WantedBy=multi-user.target
        """)


def _readme(advice: Advice, names: list[str]) -> str:
    steered = [command for command in advice.chosen.candidate.commands if command.startswith("weft steer")]
    more = f"Beside the programs runs: {'; '.join(steered)}\n" if steered else ""
    more += "".join(f"{line}.\n" for line in told(advice))
    return (
        dedent(f"""\
        MPTCP over {", ".join(names)}: {advice.chosen.candidate.words}

        1. Fill in the interfaces at the top of {HERE}/{SCRIPT}.
        2. At each end, as root, from its folder ({HERE} on this machine, {SERVER} on the other):

             install -m 755 {SCRIPT} /usr/local/sbin/
             install -m 644 {SYSCTL} /etc/sysctl.d/ && sysctl --system
             install -m 644 {UNIT} /etc/systemd/system/ && systemctl enable --now {UNIT}

        3. A link that reconnects loses its routes, and may get another address: then the set-up has to run again. On
           this machine, as root, from {HERE}, as its network is managed:

             NetworkManager:       install -m 755 {HOOK} /etc/NetworkManager/dispatcher.d/
             networkd-dispatcher:  install -m 755 {HOOK} /etc/networkd-dispatcher/routable.d/
             neither:              systemctl restart {UNIT}, after each reconnect

        4. Programs ask for MPTCP. One command: mptcpize run COMMAND. A service, for good: mptcpize enable NAME.service,
           then systemctl restart NAME. Both ends need it; what does not ask goes on with TCP.
        5. See that it works: ip mptcp endpoint; ss -M (one line for each connection); nstat -az 'MPTcp*'.

        To undo it: systemctl disable --now {UNIT}; remove the installed files; ip mptcp endpoint flush; restart.
        """)
        + more
    )
