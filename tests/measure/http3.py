"""Downloads by HTTP/3, one after another, with aioquic: their server, and a client that reads for some time."""

import asyncio
import socket
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated, QuicEvent

BYTES = 200_000_000
"""Length of what is downloaded, again and again."""
SIZE = 1280
"""Most bytes of a datagram."""
SO_RCVBUFFORCE = 33
"""Of Linux: a receive buffer beyond `net.core.rmem_max`."""
RECEIVE_BUFFER = 4 << 20
"""Of the sockets: with the kernel's default one, 90 datagrams, Python itself loses what comes while it computes."""


def _settings(is_client: bool) -> QuicConfiguration:
    return QuicConfiguration(
        is_client=is_client,
        alpn_protocols=["h3"],
        congestion_control_algorithm="cubic",
        max_datagram_size=SIZE,
        verify_mode=ssl.CERT_NONE,
    )


class _End(QuicConnectionProtocol):
    http: H3Connection | None = None
    came = 0

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic)
        for told in self.http.handle_event(event) if self.http else ():
            if isinstance(told, DataReceived):
                self.came += len(told.data)
                if told.stream_ended:
                    self.ask()
            elif isinstance(told, HeadersReceived) and not self._quic.configuration.is_client:
                self.http.send_headers(told.stream_id, [(b":status", b"200")])
                self.http.send_data(told.stream_id, bytes(BYTES), end_stream=True)
                self.transmit()

    def ask(self) -> None:
        """Asks for the next download."""
        head = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"there"), (b":path", b"/")]
        self.http.send_headers(self._quic.get_next_available_stream_id(), head, end_stream=True)
        self.transmit()


def _enlarge(end: Any) -> None:
    end._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER)


def server(port: int, folder: Path) -> None:
    """Serves until this program ends."""
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=there", "-keyout"]
    files = [folder / "there.key", folder / "there.pem"]
    subprocess.run([*words, files[0], "-out", files[1]], check=True, capture_output=True)
    settings = _settings(is_client=False)
    settings.load_cert_chain(files[1], files[0])

    async def run() -> None:
        _enlarge(await serve("0.0.0.0", port, configuration=settings, create_protocol=_End))
        await asyncio.Event().wait()

    asyncio.run(run())


def download(port: int, seconds: float) -> int:
    """Bytes that come in so many seconds from the first byte's request on."""

    async def run() -> int:
        settings = _settings(is_client=True)
        async with connect("127.0.0.1", port, configuration=settings, create_protocol=_End) as end:
            _enlarge(end)
            while end.http is None:
                await asyncio.sleep(0.01)
            until = time.monotonic() + seconds
            end.ask()
            while time.monotonic() < until:
                await asyncio.sleep(0.05)
            return end.came

    return asyncio.run(run())
