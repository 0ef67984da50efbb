"""Parts that a shell's completion needs besides what Typer does."""

import io
import os
import re
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress

from weftway.runs import link_program

BREAK = re.compile(r"[:=]+")
"""Characters at which bash ends a word, although it is one: `ecf:beta=0.5` is five of its words."""


def answer(app: Callable[[], object]) -> None:
    """Runs the app, which answers a shell that completes. Bash is answered in the words that it makes."""
    if os.environ.get("_WEFT_COMPLETE") != "complete_bash":
        app()
        return
    words = os.environ["COMP_WORDS"].split("\n")[: int(os.environ["COMP_CWORD"]) + 1]
    if len(words) > 2 and words[1] in link_program.VERBS:
        # The program joins its words itself.
        print(link_program.answer(["complete", "--bash", *words[1:]]).stdout, end="")
        return
    whole, kept = joined(words)
    os.environ |= {"COMP_WORDS": "\n".join(whole), "COMP_CWORD": str(len(whole) - 1)}
    with redirect_stdout(io.StringIO()) as printed, suppress(SystemExit):
        app()
    for line in printed.getvalue().splitlines():
        print(line.removeprefix(kept))


def joined(words: Sequence[str]) -> tuple[list[str], str]:
    """The words up to the cursor as they were typed, and which part of the last one's value bash has already."""
    whole, is_open = [words[0]], False
    for word in words[1:]:
        is_break = BREAK.fullmatch(word) is not None
        whole[len(whole) :] = [] if is_break or is_open else [""]
        kept = whole[-1] + word if is_break else whole[-1]
        whole[-1] += word
        is_open = is_break
    # For `--scheduler=ecf`, the value alone is answered.
    return whole, kept.partition("=")[2] if kept.startswith("-") else kept
