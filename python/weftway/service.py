"""systemd units that run `weft proxy`, `weft relay` or `weft tunnel`."""

import getpass
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

DESCRIPTIONS = {
    "proxy": "Connections of programs over several links (weft proxy)",
    "relay": "The end of weft proxy that has one good link (weft relay)",
    "tunnel": "All traffic over several links (weft tunnel)",
}

WATCHDOG_S = 30
"""A program that has not said for so long that it is alive is started again. It says so twice as often."""

COMMON = """\
# A program that takes more is ended and started again; the rest of the machine goes on.
MemoryMax=75%
LimitNOFILE=65536
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

FEW_CALLS = """\
SystemCallFilter=~@privileged @resources
"""
"""A tunnel needs some of these: it changes routes."""

WITHOUT_DEVICES = """\
CapabilityBoundingSet=
PrivateUsers=yes
ProcSubset=pid
ProtectKernelTunables=yes
PrivateDevices=yes
"""

OF_TUNNEL = """\
CapabilityBoundingSet=CAP_NET_ADMIN
DevicePolicy=closed
DeviceAllow=/dev/net/tun rw
"""
"""A tunnel makes a device and routes; it writes what it has changed into a folder of /run that stays when it ends."""


def unit(program: str, options: Sequence[str], *, of_user: bool, files: Mapping[str, Path] | None = None) -> str:
    """A unit for `weft PROGRAM OPTIONS`, of the system or for a user's manager.

    One of the system runs as a user of its own, and has the `files` of these options as credentials of systemd.
    A tunnel is root's; and where this program is not for all users, it runs as the one who asks.
    """
    command = " ".join(map(quoted, [sys.executable, "-m", "weftway", program, *options]))
    folder = Path.cwd()
    user: list[str] = []
    if of_user:
        pass
    elif program == "tunnel":
        user = ["User=root"]
    elif closed := folder_closed_to_others(Path(sys.executable), Path(__file__)):
        why = f"# As you: {escaped(str(closed))} is closed to others. A program that is for all has a user of its own."
        user = [why, f"User={getpass.getuser()}"]
    else:
        given = files or {}
        words = [sys.executable, "-m", "weftway", program, *without(options, given)]
        # %d is the folder of the credentials; `quoted` would write it as a percent sign.
        command = " ".join([*map(quoted, words), *(f"--{name} %d/{name}" for name in given)])
        folder = Path("/")
        user = [
            "DynamicUser=yes",
            *(["# They are read when it starts: start it again when one has changed."] if given else []),
            *(f"LoadCredential={name}:{escaped(str(file))}" for name, file in given.items()),
        ]
    service = [
        "Type=notify",
        f"ExecStart={command}",
        f"WorkingDirectory={escaped(str(folder))}",
        # As Ctrl-C: the other end is told, and links with a cap are counted to the byte.
        "KillSignal=SIGINT",
        "SuccessExitStatus=130",
        "Restart=always",
        "RestartSec=5",
        # Status 2: an option that makes no sense, which no new start mends. What may pass has another status.
        "RestartPreventExitStatus=2",
        f"WatchdogSec={WATCHDOG_S}",
        *user,
        "# What links with a cap have carried is kept in weftway/usage.json in the folder of states.",
        "StateDirectory=weftway",
        *([] if of_user else ["Environment=XDG_STATE_HOME=/var/lib"]),
        # Where `weft top` finds it.
        *([] if of_user else ["RuntimeDirectory=%p", "Environment=XDG_RUNTIME_DIR=/run/%p"]),
        # What is to be taken back after a tunnel that was killed.
        *(["RuntimeDirectory=weftway", "RuntimeDirectoryPreserve=yes"] if program == "tunnel" else []),
    ]
    hardening = COMMON + ("" if program == "tunnel" else FEW_CALLS)
    if not of_user:
        hardening += OF_SYSTEM + (OF_TUNNEL if program == "tunnel" else WITHOUT_DEVICES)
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


def folder_closed_to_others(*files: Path) -> Path | None:
    """The first folder above one of these files, or above what it links to, that other users cannot enter."""
    for place in (place for file in files for place in (file.absolute(), file.resolve())):
        for folder in reversed(place.parents):
            if not folder.stat().st_mode & 0o001:
                return folder
    return None


def without(options: Sequence[str], names: Iterable[str]) -> list[str]:
    """The options but those of these names, which have a value each."""
    left, words = [], iter(options)
    for word in words:
        name, is_whole, _ = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in names:
            left.append(word)
        elif not is_whole:
            next(words, None)
    return left


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
