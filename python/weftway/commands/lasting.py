"""Commands that a service runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weftway._native import TransferError

from .options import Verb


class Lasting(Verb):
    """A command of a service. A file that is missing may come later, with its disk or its network.

    So a missing file ends it with the status of a failed run, after which a service is started again. Status 2 is for
    what no waiting makes right.
    """

    def make_context(self, *given: Any, **more: Any) -> Any:
        with _may_pass():
            return super().make_context(*given, **more)

    def invoke(self, ctx: Any) -> Any:
        with _may_pass():
            return super().invoke(ctx)


@contextmanager
def _may_pass() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.filename is None:  # standard output, or a socket that says itself what it is
            raise
        raise TransferError(f"{error.filename}: {error.strerror}") from None
