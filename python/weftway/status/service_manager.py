"""What systemd is told of a service of `Type=notify`: that it is ready, what it does, that it lives (sd_notify(3))."""

import contextlib
import os
import socket
import time

from weftway.status.snapshot import Snapshot


class ServiceManager:
    """The service manager that started this program. Without one, nothing is told."""

    def __init__(self) -> None:
        # Taken out: what this program starts has not been started by the service manager.
        self._address = os.environ.pop("NOTIFY_SOCKET", "")
        watchdog = int(os.environ.pop("WATCHDOG_USEC", "0") or 0)
        self._every = watchdog / 1e6 / 2
        self._due = 0.0
        self._ready = False
        self._status = ""

    def alive(self) -> None:
        """The program's loop goes on."""
        now = time.monotonic()
        if self._every and now >= self._due:
            self._due = now + self._every
            self._send("WATCHDOG=1")

    def tell(self, snapshot: Snapshot) -> None:
        """Tells what has changed."""
        if snapshot["state"] == "relaying" and not self._ready:
            self._ready = True
            self._send("READY=1")
        status = f"{snapshot['state']}, {snapshot['flows']} connections"
        if status != self._status:
            self._status = status
            self._send(f"STATUS={status}")

    def close(self) -> None:
        self._send("STOPPING=1")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        # An address that begins with @ is abstract.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
            datagrams.setblocking(False)
            datagrams.sendto(text.encode(), address)
