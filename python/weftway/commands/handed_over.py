"""Verbs of the program weft-link, as far as the help and a shell that completes have to know them."""

from collections.abc import Callable
from typing import Any

import typer
from typer.core import CompletionItem, TyperCommand  # type: ignore[attr-defined]

from weftway.runs import link_program


class HandedOver(TyperCommand):
    """A verb whose words the program reads, and completes."""

    def __init__(self, *args: Any, **more: Any) -> None:
        more["context_settings"] = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
        super().__init__(*args, **more)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[CompletionItem]:
        answer = link_program.answer(["complete", str(ctx.info_name), *ctx.args, incomplete])
        return [CompletionItem(line) for line in answer.stdout.splitlines()]


def add_to(app: typer.Typer) -> None:
    """Adds the program's verbs to those of the command."""
    for name, summary in link_program.VERBS.items():
        app.command(name, cls=HandedOver, add_help_option=False, help=summary)(_verb(name))


def _verb(name: str) -> Callable[[typer.Context], None]:
    def command(context: typer.Context) -> None:
        link_program.hand_over([name, *context.args])

    return command
