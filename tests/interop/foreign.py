"""picoquic, over several addresses: `hq-interop`, as crates/noq/examples/hq.rs speaks it.

    foreign.py LIBRARY serve ADDRESS CERTIFICATE KEY [OPTION …]   until its connection has ended
    foreign.py LIBRARY fetch SERVER LOCAL [OPTION …] [STEP …]     steps of a client, in turn

Steps: `get=BYTES`, `put=BYTES`; `path=IP` opens a path from another local address; `backup` makes that path a backup;
`close` abandons it, and goes on when it is gone.

picoquic comes in the extension module of the wheel `aiopquic`, which exports its functions. They do no input or output:
the sockets are this program's, and it can cut one of them. At the end it prints one line of JSON.
"""

import argparse
import array
import ctypes
import itertools
import json
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Address = tuple[str, int]

LAZY = 1
"""RTLD_LAZY of dlopen: a function is looked up when it is first called."""

POINTER, TEXT = ctypes.c_void_p, ctypes.c_char_p
U32, U64, SIZE, INT = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int
CALLBACK = ctypes.CFUNCTYPE(INT, POINTER, U64, POINTER, SIZE, INT, POINTER, POINTER)
CHANGE = ctypes.CFUNCTYPE(U32, POINTER, POINTER, POINTER, SIZE, SIZE, SIZE)

DATA, FIN = 0, 1
ENDS = {4: "reset", 5: "closed by the stack", 6: "closed by the application"}
READY = 10
PATHS = {20: "available", 21: "suspended", 22: "deleted"}

FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "create": (POINTER, [U32, TEXT, TEXT, TEXT, TEXT, CALLBACK, *[POINTER] * 4, U64, POINTER, TEXT, POINTER, SIZE]),
    "current_time": (U64, []),
    "set_default_multipath_option": (None, [POINTER, INT]),
    "set_default_tp_value": (INT, [POINTER, U64, U64]),
    "enable_path_callbacks_default": (None, [POINTER, INT]),
    "set_default_congestion_algorithm_by_name": (None, [POINTER, TEXT]),
    "set_null_verifier": (None, [POINTER]),
    "set_fuzz": (None, [POINTER, CHANGE, POINTER]),
    "create_client_cnx": (POINTER, [POINTER, POINTER, U64, U32, TEXT, TEXT, CALLBACK, POINTER]),
    "incoming_packet": (INT, [POINTER, TEXT, SIZE, POINTER, POINTER, INT, ctypes.c_ubyte, U64]),
    "prepare_next_packet": (INT, [POINTER, U64, POINTER, SIZE, *[POINTER] * 6]),
    "get_next_wake_delay": (ctypes.c_int64, [POINTER, U64, ctypes.c_int64]),
    "add_to_stream": (INT, [POINTER, U64, TEXT, SIZE, INT]),
    "probe_new_path": (INT, [POINTER, POINTER, POINTER, U64]),
    "set_path_status": (INT, [POINTER, U64, INT]),
    "abandon_path": (INT, [POINTER, U64, U64, U64]),
    "close": (INT, [POINTER, U64]),
}
"""Functions of picoquic's that are called here: their results and arguments (picoquic.h, 1.1.53)."""

INITIAL_MAX_DATA = (4, 5, 6)
"""Transport parameters: of the connection, of streams of both ends."""
BACKUP = 1


def loaded(file: Path) -> Any:
    """The functions of picoquic in a shared library.

    It is a module of one version of Python, and calls Python's functions. Nothing here makes it do so: as long as these
    are looked up only when they are called, every Python can load it.
    """
    opener = ctypes.CDLL(None)
    opener.dlopen.restype, opener.dlerror.restype = POINTER, TEXT
    handle = opener.dlopen(str(file).encode(), LAZY)
    if not handle:
        raise OSError(opener.dlerror().decode())
    library, functions = ctypes.CDLL(str(file), handle=handle), SimpleNamespace()
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, f"picoquic_{name}")
        function.restype, function.argtypes = result, arguments
        setattr(functions, name, function)
    return functions


def content(size: int) -> bytes:
    """Data that both ends know: 64-bit numbers, 0, 1, 2 …"""
    return array.array("Q", range(-(-size // 8))).tobytes()[:size]


def right(data: bytes) -> int:
    """Number of right bytes at the beginning."""
    expected = content(len(data))
    if data == expected:
        return len(data)
    return next(at for at, (one, other) in enumerate(zip(data, expected, strict=True)) if one != other)


def packed(address: Address) -> ctypes.Array[ctypes.c_char]:
    """Address as a sockaddr_in, in the room of a sockaddr_storage."""
    host, port = address
    head = struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_aton(host)
    return ctypes.create_string_buffer(head, 128)


def unpacked(storage: ctypes.Array[ctypes.c_char]) -> Address:
    return socket.inet_ntoa(storage.raw[4:8]), int(struct.unpack(">H", storage.raw[2:4])[0])


def endpoint(text: str) -> Address:
    host, _, port = text.partition(":")
    return host, int(port or 0)


class End:
    """One end of a connection: sockets, picoquic, and what an application does with its streams."""

    def __init__(self, own: Address, options: argparse.Namespace, certificate: str = "", key: str = "") -> None:
        self.picoquic = loaded(options.library)
        self.sockets: dict[Address, socket.socket] = {}
        self.poll, self.by_descriptor = select.poll(), dict[int, Address]()
        self.first = self.bind(own)
        self.is_server, self.is_ready, self.ended = bool(certificate), False, ""
        self.connection: int | None = None
        self.arriving: dict[int, bytearray] = {}
        self.answers: dict[int, bytes] = {}
        self.told: list[str] = []
        self.available: set[int] = {0}
        self.cut, self.left = options.cut and options.cut[0], options.cut and options.cut[1]
        self.callback, self.change = CALLBACK(self.called), CHANGE(self.renumbered)
        self.numbers = options.renumber
        names = [name.encode() or None for name in (certificate, key)]
        call, nothing = self.picoquic, [None] * 4
        self.stack = call.create(
            8, *names, None, b"hq-interop", self.callback, *nothing, call.current_time(), None, None, None, 0
        )
        if not self.stack:
            raise OSError("picoquic takes neither certificate nor key")
        call.enable_path_callbacks_default(self.stack, 1)
        call.set_default_congestion_algorithm_by_name(self.stack, b"cubic")
        call.set_default_multipath_option(self.stack, int(not options.single))
        # A raised limit that is on its way on a path that is cut is never sent again.
        for limit in INITIAL_MAX_DATA:
            call.set_default_tp_value(self.stack, limit, 64 << 20)
        if self.numbers:
            call.set_fuzz(self.stack, self.change, None)

    def bind(self, address: Address) -> Address:
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            one.setsockopt(socket.SOL_SOCKET, buffer, 4 << 20)
        one.bind(address)
        one.setblocking(False)
        name: Address = one.getsockname()
        self.sockets[name], self.by_descriptor[one.fileno()] = one, name
        self.poll.register(one, select.POLLIN)
        return name

    def renumbered(self, _context: int, _connection: int, packet: int, _most: int, length: int, head: int) -> int:
        """Puts another number in the place of the first frame's, if that is the one to change."""
        old, new = self.numbers
        is_short = not ctypes.c_ubyte.from_address(packet).value & 0x80
        number = ctypes.c_ubyte.from_address(packet + head)
        if is_short and number.value == old:
            number.value = new
        return length

    def called(self, connection: int, number: int, data: int, size: int, event: int, *_contexts: int) -> int:
        try:
            self.connection = connection
            self.happened(number, ctypes.string_at(data, size) if event in (DATA, FIN) and size else b"", event)
        except Exception as error:  # It cannot pass through picoquic.
            self.told.append(repr(error))
            return -1
        return 0

    def happened(self, number: int, data: bytes, event: int) -> None:
        if event in (DATA, FIN):
            self.arriving.setdefault(number, bytearray()).extend(data)
            if event == FIN:
                whole = bytes(self.arriving.pop(number))
                if self.is_server:
                    self.answer(number, whole)
                else:
                    self.answers[number] = whole
        elif event in ENDS:
            self.ended = ENDS[event]
        elif event == READY:
            self.is_ready = True
        elif event in PATHS:
            self.told.append(f"path {number} {PATHS[event]}")
            (self.available.add if PATHS[event] == "available" else self.available.discard)(number)

    def answer(self, stream: int, asked: bytes) -> None:
        line, _, body = asked.partition(b"\r\n")
        verb, _, size = line.partition(b" /")
        self.send(stream, content(int(size)) if verb == b"GET" else str(right(body)).encode())

    def send(self, stream: int, data: bytes) -> None:
        assert self.picoquic.add_to_stream(self.connection, stream, data, len(data), 1) == 0

    def is_lost(self, own: Address, other: Address, size: int) -> bool:
        """Tells if a datagram between these addresses comes after the cut."""
        if not self.cut or self.cut not in (own[0], other[0]):
            return False
        if self.left > 0 >= self.left - size:
            self.told.append(f"cut {self.cut}")
        self.left -= size
        return bool(self.left <= 0)

    def turn(self) -> None:
        """Sends what is to be sent, waits 20 ms at most, and takes what has come."""
        call, buffer, length = self.picoquic, ctypes.create_string_buffer(1536), SIZE()
        to, own, connection_id = (ctypes.create_string_buffer(128) for _ in range(3))
        interface, last = INT(), POINTER()
        rest = [ctypes.byref(one) for one in (length, to, own, interface, connection_id, last)]
        while call.prepare_next_packet(self.stack, call.current_time(), buffer, 1536, *rest) == 0 and length.value:
            # Where a connection begins picoquic does not know its own address.
            name = unpacked(own) if unpacked(own) in self.sockets else self.first
            if not self.is_lost(name, unpacked(to), length.value):
                try:
                    self.sockets[name].sendto(buffer.raw[: length.value], unpacked(to))
                except BlockingIOError:
                    self.told.append("a full socket")
        delay = call.get_next_wake_delay(self.stack, call.current_time(), 20_000)
        for descriptor, _ in self.poll.poll(max(0, delay / 1000)):
            name = self.by_descriptor[descriptor]
            for _ in range(64):
                try:
                    data, source = self.sockets[name].recvfrom(2048)
                except BlockingIOError:
                    break
                if not self.is_lost(name, source, len(data)):
                    addresses = packed(source), packed(name)
                    call.incoming_packet(self.stack, data, len(data), *addresses, 0, 0, call.current_time())

    def report(self, ended: str) -> None:
        print(json.dumps({"ended": ended, "told": self.told, "paths": sorted(self.available)}))


def client(end: End, server: Address, steps: list[str]) -> Iterator[None]:
    """Carries out the steps. It goes on after each turn of the end."""
    call, streams, newest = end.picoquic, itertools.count(0, 4), 0

    def ask(verb: str, size: int) -> Iterator[None]:
        stream = next(streams)
        end.send(stream, f"{verb} /{size}\r\n".encode() + (content(size) if verb == "PUT" else b""))
        while stream not in end.answers:
            yield
        if end.answers.pop(stream) != (content(size) if verb == "GET" else str(size).encode()):
            raise ValueError(f"{verb} {size}: other bytes arrived")

    while not end.is_ready:
        yield
    for step in steps:
        verb, _, value = step.partition("=")
        if verb in ("get", "put"):
            yield from ask(verb.upper(), int(value))
        elif verb == "path":
            before, own = set(end.available), end.bind((value, 0))
            while call.probe_new_path(end.connection, packed(server), packed(own), call.current_time()) != 0:
                yield
            while not end.available - before:
                yield
            newest = max(end.available)
        elif verb == "backup":
            assert call.set_path_status(end.connection, newest, BACKUP) == 0
        elif verb == "close":
            assert call.abandon_path(end.connection, newest, 0, call.current_time()) == 0
            while newest in end.available:
                yield
            # The limit of paths and their connection IDs come in packets that leave anyway.
            yield from ask("GET", 1)
        else:
            raise ValueError(f"{step}: no such step")


def main() -> int:
    parser = argparse.ArgumentParser(description="picoquic as one end of a connection over several addresses")
    parser.add_argument("library", type=Path)
    parser.add_argument("what", choices=["serve", "fetch", "try"])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--cut", type=lambda text: (text.partition("@")[0], int(text.partition("@")[2])))
    parser.add_argument("--single", action="store_true", help="without multipath")
    parser.add_argument("--renumber", type=lambda text: tuple(int(one, 16) for one in text.split("=")))
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_intermixed_args()
    if options.what == "try":
        loaded(options.library)
        return 0
    limit = time.monotonic() + options.seconds
    first, *rest = options.words
    if options.what == "serve":
        end = End(endpoint(first), options, *rest)
        print(f"listening on port {end.first[1]}", flush=True)
        while not end.ended and time.monotonic() < limit:
            end.turn()
        end.report(end.ended or "too late")
        return 0
    server, end = endpoint(first), End(endpoint(rest[0]), options)
    call = end.picoquic
    call.set_null_verifier(end.stack)
    now = call.current_time()
    end.connection = call.create_client_cnx(
        end.stack, packed(server), now, 0, b"localhost", b"hq-interop", end.callback, None
    )
    ended = "right"
    try:
        for _ in client(end, server, rest[1:]):
            end.turn()
            if end.ended or time.monotonic() > limit:
                ended = end.ended or "too late"
                break
    except ValueError as error:
        ended = str(error)
    end.report(ended)
    call.close(end.connection, 0)
    for _ in range(5):
        end.turn()
    return int(ended != "right")


if __name__ == "__main__":
    sys.exit(main())
