"""A page in headless Chromium, driven over the DevTools protocol on a pair of pipes: no further package is needed."""

import atexit
import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe")


def found() -> str | None:
    """A browser on this machine."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


needs_browser = pytest.mark.skipif(found() is None, reason=f"no browser: none of {', '.join(NAMES)} is installed")

RELOADS = 5
"""So often a page may be replaced while it is waited for."""


class Gone(Exception):
    """The page that was asked is being replaced by another."""


class Program:
    """Browser that runs, and the pipes to it."""

    def __init__(self, flags: Sequence[str] = ()) -> None:
        program = found()
        assert program is not None
        self._numbers = itertools.count(1)
        self._rest = b""
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs, self._out = os.pipe()
        self._in, answers = os.pipe()

        # Chromium reads from descriptor 3 and writes to 4. The pipes lie above these already or are moved there first.
        def place() -> None:
            high = (os.dup(theirs), os.dup(answers))
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        command = [program, *FLAGS, *flags, f"--user-data-dir={self._profile.name}", "about:blank"]
        # It is killed, and what it has made for the time being goes with the profile.
        self._process = subprocess.Popen(
            command,
            preexec_fn=place,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": self._profile.name},
        )
        os.close(theirs)
        os.close(answers)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._out)
        os.close(self._in)
        self._profile.cleanup()

    def begin(self, message: dict[str, Any]) -> int:
        """Sends a command; its number is that of the answer."""
        number = next(self._numbers)
        os.write(self._out, json.dumps({"id": number, **message}).encode() + b"\0")
        return number

    def next(self) -> dict[str, Any]:
        """The next answer or event."""
        while b"\0" not in self._rest:
            chunk = os.read(self._in, 1 << 20)
            assert chunk, "the browser ended"
            self._rest += chunk
        text, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        return message


@cache
def shared() -> Program:
    """The browser of this process, which takes a second to start. It ends with the process."""
    program = Program()
    atexit.register(program.end)
    return program


class Browser:
    """Tab of a browser, which shares nothing with others. Errors of its console are kept in `errors`.

    With `flags` the browser is one of its own.
    """

    def __init__(self, width: int = 1440, height: int = 1000, dark: bool = False, flags: Sequence[str] = ()) -> None:
        self.errors: list[str] = []
        self._size, self._dark, self._flags = (width, height), dark, flags
        self._loaded = False
        self._session: str | None = None

    def __enter__(self) -> Self:
        self._program = Program(self._flags) if self._flags else shared()
        self._session = self.send("Target.attachToTarget", targetId=self._page(), flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        width, height = self._size
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if self._dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        return self

    def _page(self) -> str:
        """An empty page: the first of a browser of its own, or one beside those of others."""
        if self._flags:
            targets = self.send("Target.getTargets")["targetInfos"]
            return next(str(target["targetId"]) for target in targets if target["type"] == "page")
        self._context = self.send("Target.createBrowserContext")["browserContextId"]
        return str(self.send("Target.createTarget", url="about:blank", browserContextId=self._context)["targetId"])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session = None
        if self._flags:
            self._program.end()
        else:
            self.send("Target.disposeBrowserContext", browserContextId=self._context)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Carries out a command and returns its result."""
        session = {"sessionId": self._session} if self._session else {}
        number = self._program.begin({"method": method, "params": params, **session})
        while (answer := self._program.next()).get("id") != number:
            self._hear(answer)
        if "navigated" in answer.get("error", {}).get("message", ""):
            raise Gone(method)
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def _hear(self, event: dict[str, Any]) -> None:
        if event.get("sessionId") != self._session:
            return
        params = event.get("params", {})
        match event.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description") or details["text"])
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "assert"):
                self.errors.append(str(params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.errors.append(params["entry"]["text"])

    def open(self, page: Path, fragment: str = "") -> None:
        """Loads a file, and waits until it is there. What was open is left first: a fragment alone loads nothing."""
        for url in ("about:blank", page.resolve().as_uri() + fragment):
            self.load(url)

    def load(self, url: str) -> None:
        """Loads a page, and waits until it is there with all that belongs to it."""
        self._loaded = False
        self.send("Page.navigate", url=url)
        while not self._loaded:
            self._hear(self._program.next())

    def run(self, script: str) -> Any:
        """The value of an expression, waited for if it is a promise."""
        reply = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def until(self, script: str) -> None:
        """Waits until an expression is true, for a minute at most, in a page that may be loading anew."""
        poll = (
            f"new Promise((done) => {{ let left = 1200; const look = () => ({script}) || !left-- "
            f"? done(!!({script})) : setTimeout(look, 50); look(); }})"
        )
        for _ in range(RELOADS):
            with suppress(Gone):
                assert self.run(poll), f"not within a minute: {script}"
                return
        raise AssertionError(f"the page loads again and again: {script}")

    def point(self, x: float, y: float, kind: str = "mouseMoved", **more: Any) -> None:
        """Moves the pointer, or presses and releases it, at a place of the window."""
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def picture(self, file: Path) -> None:
        """Writes a picture of the window, as PNG."""
        file.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))
