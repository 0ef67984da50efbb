"""What is advised as files that last: for systemd and sysctl.d, one folder for each end.

`weft advise` prints commands, which a restart forgets. These files also have what MPTCP needs before anything can be
advised: an endpoint for each link, limits, and a rule by which packets leave through the link of their address.
"""

from pathlib import Path
from textwrap import dedent

from weftway._native import ScenarioError
from weftway.store import whole

from .candidates import LINUX, paths
from .runs import Advice, keys_of
from .words import end_of

HERE, SERVER = "here", "server"
UNIT = "weftway-mptcp.service"
SCRIPT = "weftway-mptcp"
SYSCTL = "90-weftway-mptcp.conf"
FIRST_TABLE = 7100
"""Routing tables from here on are ours, one for each link."""


def write(found: Advice, folder: Path) -> list[Path]:
    """Writes the files into a folder that is not there yet; returns them."""
    if found.request.place != LINUX:
        raise ScenarioError("--write DIR writes what Linux needs; leave out --deployable")
    if folder.exists():
        raise ScenarioError(f"--write {folder}: it is there already; name a folder that is not")
    names = paths(keys_of(found.scenario))
    texts = {
        f"{HERE}/{SCRIPT}": _here(found, names),
        f"{HERE}/{UNIT}": _unit(),
        f"{HERE}/{SYSCTL}": _sysctl(found, "here"),
        f"{SERVER}/{SCRIPT}": _server(names),
        f"{SERVER}/{UNIT}": _unit(),
        f"{SERVER}/{SYSCTL}": _sysctl(found, "on the server"),
        "README": _readme(found, names),
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with whole(folder / name) as half:
            half.write_text(text, encoding="utf-8")
            half.chmod(0o755 if name.endswith(SCRIPT) else 0o644)
    return [folder / name for name in texts]


def _sysctl(found: Advice, end: str) -> str:
    own = [one for one in found.chosen.candidate.commands if one.startswith("sysctl -w ")]
    lines = ["net.mptcp.enabled = 1"]
    for command in own:
        if end_of(command, found.is_upload) == end:
            key, _, value = command.removeprefix("sysctl -w ").partition("=")
            lines.append(f"{key} = {value.strip(chr(39))}")
    return "\n".join([f"# What `weft advise` says of {found.request.scenario}. Goes into /etc/sysctl.d.", *lines, ""])


def _here(found: Advice, names: list[str]) -> str:
    backups = found.chosen.candidate.backups
    links = [f"link {name} {table} {'backup' if name in backups else ''}".rstrip() for table, name in _tables(names)]
    interfaces = [f'{variable(name)}="{name}"   # the interface of {name}' for name in names]
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
            router=$(ip -4 route show default dev "$device" | awk '$2 == "via" { print $3; exit }')
            [ -n "$address" ] || { echo "weftway-mptcp: $device has no address" >&2; return 0; }
            ip rule del table "$2" 2>/dev/null || true
            ip rule add from "$address" table "$2"
            ip route replace default ${router:+via "$router"} dev "$device" table "$2"
            ip mptcp endpoint add "$address" dev "$device" subflow ${3:+"$3"}
        }

        """)
    limits = f"ip mptcp endpoint flush\nip mptcp limits set subflow {len(names)} add_addr_accepted {len(names)}\n"
    calls = "".join(f"{_call(one)}\n" for one in links)
    return head + "".join(f"interface_{line}\n" for line in interfaces) + body + limits + calls


def _call(line: str) -> str:
    word, name, *rest = line.split()
    return " ".join([word, variable(name), *rest])


def _tables(names: list[str]) -> list[tuple[int, str]]:
    return list(enumerate(names, FIRST_TABLE))


def variable(name: str) -> str:
    """A link's name as a part of a variable's."""
    return "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name)


def _server(names: list[str]) -> str:
    return dedent(f"""\
        #!/bin/sh
        # The server lets a client open a subflow for each of its links.
        set -eu
        ip mptcp limits set subflow {len(names)} add_addr_accepted 0
        """)


def _unit() -> str:
    return dedent(f"""\
        [Unit]
        Description=MPTCP endpoints and limits
        Wants=network-online.target
        After=network-online.target

        [Service]
        Type=oneshot
        RemainAfterExit=yes
        ExecStart=/usr/local/sbin/{SCRIPT}

        [Install]
        WantedBy=multi-user.target
        """)


def _readme(found: Advice, names: list[str]) -> str:
    steered = [one for one in found.chosen.candidate.commands if one.startswith("weft steer")]
    more = f"Beside the programs runs: {'; '.join(steered)}\n" if steered else ""
    return (
        dedent(f"""\
        MPTCP over {", ".join(names)}: {found.chosen.candidate.words}

        1. Fill in the interfaces at the top of {HERE}/{SCRIPT}.
        2. At each end, as root, from its folder ({HERE} on this machine, {SERVER} on the other):

             install -m 755 {SCRIPT} /usr/local/sbin/
             install -m 644 {SYSCTL} /etc/sysctl.d/ && sysctl --system
             install -m 644 {UNIT} /etc/systemd/system/ && systemctl enable --now {UNIT}

        3. Programs ask for MPTCP. One command: mptcpize run COMMAND. A service, for good: mptcpize enable NAME.service,
           then systemctl restart NAME. Both ends need it; what does not ask goes on with TCP.
        4. See that it works: ip mptcp endpoint; ss -M (one line for each connection); nstat -az 'MPTcp*'.

        To undo it: systemctl disable --now {UNIT}; remove the three files; ip mptcp endpoint flush; restart.
        """)
        + more
    )
