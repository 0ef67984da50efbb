"""systemd units that run `weft proxy`, `weft relay` or `weft tunnel`."""

import getpass
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

DESCRIPTIONS = {
    "proxy": "Connections of programs over several links (weft proxy)",
    "relay": "The end of weft proxy that has one good link (weft relay)",
    "tunnel": "All traffic over several links (weft tunnel)",
}

WATCHDOG_S = 30
"""A program that has not said for so long that it is alive is started again. It says so twice as often."""

COMMON = """\
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
UMask=0077
"""
"""What a user's service manager can do, too: it needs no namespaces."""

OF_SYSTEM = """\
ProtectSystem=strict
ProtectHome=read-only
ProtectProc=invisible
ProtectClock=yes
ProtectHostname=yes
ProtectControlGroups=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
PrivateTmp=yes
"""

WITHOUT_DEVICES = """\
CapabilityBoundingSet=
ProtectKernelTunables=yes
PrivateDevices=yes
"""

OF_TUNNEL = """\
CapabilityBoundingSet=CAP_NET_ADMIN
DevicePolicy=closed
DeviceAllow=/dev/net/tun rw
"""
"""A tunnel makes a device and routes; it writes what it has changed into a folder of /run that stays when it ends."""


def unit(program: str, options: Sequence[str], *, of_user: bool) -> str:
    """A unit for `weft PROGRAM OPTIONS`, of the system or for a user's manager.

    One of the system runs as the user who asks, a tunnel as root.
    """
    command = " ".join(map(quoted, [sys.executable, "-m", "weftway", program, *options]))
    service = [
        "Type=notify",
        f"ExecStart={command}",
        f"WorkingDirectory={escaped(str(Path.cwd()))}",
        # As Ctrl-C: the other end is told, and links with a cap are counted to the byte.
        "KillSignal=SIGINT",
        "SuccessExitStatus=130",
        "Restart=always",
        "RestartSec=5",
        # An option that makes no sense does not make more of it later.
        "RestartPreventExitStatus=2",
        f"WatchdogSec={WATCHDOG_S}",
        *([] if of_user else [f"User={'root' if program == 'tunnel' else getpass.getuser()}"]),
        "# What links with a cap have carried is kept in weftway/usage.json in the folder of states.",
        "StateDirectory=weftway",
        *([] if of_user else ["Environment=XDG_STATE_HOME=/var/lib"]),
        # Where `weft top` finds it.
        *([] if of_user else ["RuntimeDirectory=%p", "Environment=XDG_RUNTIME_DIR=/run/%p"]),
        # What is to be taken back after a tunnel that was killed.
        *(["RuntimeDirectory=weftway", "RuntimeDirectoryPreserve=yes"] if program == "tunnel" else []),
    ]
    hardening = COMMON if of_user else COMMON + OF_SYSTEM + (OF_TUNNEL if program == "tunnel" else WITHOUT_DEVICES)
    return "\n".join(
        [
            "[Unit]",
            f"Description={DESCRIPTIONS[program]}",
            "Wants=network-online.target",
            "After=network-online.target",
            "",
            "[Service]",
            *service,
            "",
            hardening.rstrip(),
            "",
            "[Install]",
            f"WantedBy={'default.target' if of_user else 'multi-user.target'}",
            "",
        ]
    )


def install(program: str, options: Sequence[str]) -> Path:
    """Writes the unit for this user's service manager: its file."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    file = Path(home) / "systemd" / "user" / f"weft-{program}.service"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(unit(program, options, of_user=True))
    return file


def escaped(text: str) -> str:
    """A text in which systemd replaces nothing."""
    return text.replace("%", "%%")


def quoted(word: str) -> str:
    """A word of a command line, as systemd reads it (systemd.service(5))."""
    text = escaped(word).replace("$", "$$")
    if re.fullmatch(r"[\w@%+=:,./$-]+", text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
