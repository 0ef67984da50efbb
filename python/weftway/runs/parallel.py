"""Functions and objects at work beside one another: on this machine's cores, or on the nodes of a Ray cluster.

>>> with LocalPool(2) as pool:
...     sorted(pool.map_unordered(abs, [-1, -2]))
[(0, 1), (1, 2)]

What is sent and what comes back is pickled. A function or a class is sent by its name: the
process that carries it out must be able to import it.
"""

import multiprocessing
import os
import signal
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from weftway._native import ScenarioError, SimulationError

T = TypeVar("T")
R = TypeVar("R")

POLL_S = 1.0
"""Time that results are waited for at once: a cluster that has grown meanwhile is given more to do."""

AHEAD = 2
"""Calls that are given out for each worker: one at work, one that waits beside it."""

RETRIES = 5
"""Times that Ray repeats a call whose node was lost. More is no bad luck: the call itself brings its workers down."""

PATIENCE_S = 5.0
"""Time that the head of a cluster may take to answer at all."""

MISSING = "--ray needs the package `ray`: `uv sync --extra sweep`, or `pip install 'weftway[sweep]'`"


class Pool(Protocol):
    """Workers that call functions and objects. To be used in a `with`: its end stops what is still running."""

    def map_unordered(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[tuple[int, R]]:
        """Each item's number with its result, as they come. Items are taken when there is room for them.

        A call that raises costs no other one: the first exception is raised when all others have finished. Whoever
        stops listening cancels what has not begun; on Ray it goes on until the connection ends.
        """
        ...

    def actors(self, cls: type, n: int, *args: Any) -> list[Any]:
        """`n` objects `cls(*args)`, each in a process of its own.

        A call of a method gives a `concurrent.futures.Future`; calls of one object are carried out in turn.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class _Calls(ABC):
    """Part that both pools share: calls are given out as there is room, and collected as they finish."""

    @abstractmethod
    def _room(self) -> int:
        """Number of calls that may be out at a time."""

    @abstractmethod
    def _start(self, function: Callable[[Any], Any], item: Any) -> Any:
        """Begins a call: a handle of it."""

    @abstractmethod
    def _finished(self, handles: list[Any]) -> list[Any]:
        """Handles of the calls that are finished, after a while at most."""

    @abstractmethod
    def _result(self, handle: Any) -> Any:
        """Result of the call; raises what it raised."""

    @abstractmethod
    def _cancel(self, handle: Any) -> None:
        """Its result is not wanted any more."""

    @abstractmethod
    def _stop(self) -> None:
        """Ends everything."""

    def map_unordered(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[tuple[int, R]]:
        waiting = enumerate(items)
        out: dict[Any, int] = {}
        failed: Exception | None = None
        try:
            while True:
                for index, item in islice(waiting, max(self._room() - len(out), 0)):
                    out[self._start(function, item)] = index
                if not out:
                    break
                for handle in self._finished(list(out)):
                    index = out.pop(handle)
                    try:
                        result = self._result(handle)
                    except Exception as error:
                        failed = error if failed is None else failed
                    else:
                        yield index, result
        finally:
            for handle in out:
                self._cancel(handle)
        if failed:
            raise failed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()


class LocalPool(_Calls):
    """Processes of this machine; as many as it has cores if not said."""

    def __init__(self, n: int | None = None) -> None:
        self._workers = n or os.cpu_count() or 1
        self._executors: list[ProcessPoolExecutor] = []
        self._own: ProcessPoolExecutor | None = None

    def actors(self, cls: type, n: int, *args: Any) -> list[Any]:
        return [_LocalActor(self._executor(1, cls, args)) for _ in range(n)]

    def _executor(self, workers: int, *what: Any) -> ProcessPoolExecutor:
        # Spawned: a fork of a process with threads, as JAX and Polars have them, may hang.
        context = multiprocessing.get_context("spawn")
        self._executors.append(ProcessPoolExecutor(workers, context, _begin, what))
        return self._executors[-1]

    def _room(self) -> int:
        return AHEAD * self._workers

    def _start(self, function: Callable[[Any], Any], item: Any) -> Future[Any]:
        self._own = self._own or self._executor(self._workers)
        return self._own.submit(function, item)

    def _finished(self, handles: list[Any]) -> list[Any]:
        return list(wait(handles, POLL_S, FIRST_COMPLETED).done)

    def _result(self, handle: Future[Any]) -> Any:
        return handle.result()

    def _cancel(self, handle: Future[Any]) -> None:
        handle.cancel()

    def _stop(self) -> None:
        for executor in self._executors:
            # Python 3.14 has `terminate_workers` for this.
            processes = list((executor._processes or {}).values())
            executor.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
            for process in processes:
                process.join()
        self._executors, self._own = [], None


_object: Any = None
"""In the process of an actor: the object."""


def _begin(cls: type | None = None, args: tuple[Any, ...] = ()) -> None:
    """The first thing that a process does. Ctrl-C goes to all processes of a terminal: the first one answers it."""
    global _object
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _object = cls(*args) if cls else None


def _call(method: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return getattr(_object, method)(*args, **named)


class _LocalActor:
    def __init__(self, executor: ProcessPoolExecutor) -> None:
        self._executor = executor

    def __getattr__(self, method: str) -> Callable[..., Future[Any]]:
        if method.startswith("_"):
            raise AttributeError(method)
        return lambda *args, **named: self._executor.submit(_call, method, args, named)


class RayPool(_Calls):
    """The nodes of a Ray cluster, each with the same Weftway installed.

    `address`: `local` starts a cluster on this machine and ends it; `auto` finds the one that runs here;
    `host:port` names another's, `ray://host:port` its client server. A process that is connected already stays so.
    `most` calls at most are out at a time.
    """

    def __init__(self, address: str, most: int | None = None) -> None:
        self._ray = _imported()
        self._most = most
        self._is_own = not self._ray.is_initialized()
        if self._is_own:
            self._connect(address)
        self._apply = self._ray.remote(num_cpus=1, max_retries=RETRIES)(_applied)

    def _connect(self, address: str) -> None:
        _knock(address)
        starts = {"num_cpus": self._most, "include_dashboard": False} if address == "local" else {}
        try:
            self._ray.init(address, log_to_driver=False, logging_level="ERROR", **starts)
        except (ConnectionError, ImportError, RuntimeError, ValueError, OSError) as error:
            raise ScenarioError(f"--ray {address}: {_first_line(error)}") from error

    def actors(self, cls: type, n: int, *args: Any) -> list[Any]:
        remote = self._ray.remote(num_cpus=1)(_Held)
        return [_RayActor(remote.remote(cls, args)) for _ in range(n)]

    def _room(self) -> int:
        nodes = int(self._ray.cluster_resources().get("CPU", 0))
        # Calls that wait are what makes a cluster grow.
        return self._most or AHEAD * max(nodes, 1)

    def _start(self, function: Callable[[Any], Any], item: Any) -> Any:
        return self._apply.remote(function, item)

    def _finished(self, handles: list[Any]) -> list[Any]:
        done, _ = self._ray.wait(handles, num_returns=len(handles), timeout=0)
        return list(done or self._ray.wait(handles, num_returns=1, timeout=POLL_S)[0])

    def _result(self, handle: Any) -> Any:
        try:
            return self._ray.get(handle)
        except self._ray.exceptions.RayTaskError as error:
            raise error.as_instanceof_cause() from None
        except self._ray.exceptions.RayError as error:
            raise SimulationError(f"Ray gave up on a call: {_first_line(error)}") from error

    def _cancel(self, handle: Any) -> None:
        # Not with `ray.cancel`: Ray 2.60 aborts this process if the call's answer comes in just then ("Tried to
        # complete task that was not pending", a sibling of ray-project/ray#54785). The connection's end ends the call.
        del handle

    def _stop(self) -> None:
        if self._is_own:
            self._ray.shutdown()


def _applied(function: Callable[[Any], Any], item: Any) -> Any:
    """Ray takes functions written in Python only; this one carries any."""
    return function(item)


class _Held:
    """Object that an actor holds, and its calls."""

    def __init__(self, cls: type, args: tuple[Any, ...]) -> None:
        self._object = cls(*args)

    def call(self, method: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return getattr(self._object, method)(*args, **named)


class _RayActor:
    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def __getattr__(self, method: str) -> Callable[..., Future[Any]]:
        if method.startswith("_"):
            raise AttributeError(method)
        return lambda *args, **named: self._handle.call.remote(method, args, named).future()


def _first_line(error: Exception) -> str:
    """Ray's messages go on with pages of its logs."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _knock(address: str) -> None:
    """Ray tries for many minutes to reach a cluster that is not there: a first look tells at once."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host and address not in ("auto", "local"):
        raise ScenarioError(f"--ray {address}: expected auto, local, HOST:PORT or ray://HOST:PORT")
    if host:
        try:
            socket.create_connection((host.strip("[]"), int(port)), PATIENCE_S).close()
        except (OSError, ValueError) as error:
            raise ScenarioError(f"--ray {address}: no Ray cluster answers there: {error}") from error


def _imported() -> Any:
    """Ray, which sends nothing about its use to its makers, and leaves the environments of the nodes alone."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Under `uv run`, Ray would ship the whole working folder and make a new environment on every node.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    try:
        import ray
    except ImportError:
        raise ScenarioError(MISSING) from None
    return ray
