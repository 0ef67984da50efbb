"""Reading files of text that people write, in whatever editor."""

from pathlib import Path

from weftway._native import ScenarioError
from weftway.terminal import interrupts

WIDE = (b"\xff\xfe", b"\xfe\xff")
"""First bytes of a file that says that it is in UTF-16."""

MOST = 256_000_000
"""More is no file that somebody wrote; a device such as `/dev/zero` never ends."""


def text(file: Path) -> str:
    """The text of a file in UTF-8, without the mark that some editors write before it."""
    if not file.is_file():
        interrupts.break_waits_off()
    with file.open("rb") as opened:
        read = opened.read(MOST + 1)
    if len(read) > MOST:
        raise ScenarioError(f"{file}: it has more than {MOST // 1_000_000} MB")
    # Latin letters have a zero byte each in UTF-16, and none in UTF-8.
    if read.startswith(WIDE) or b"\0" in read:
        raise ScenarioError(f"{file}: it is not UTF-8, but UTF-16 or no text; save it as UTF-8")
    try:
        return read.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = read.count(b"\n", 0, error.start) + 1
        raise ScenarioError(f"{file}: it is not UTF-8, in line {line}; save it as UTF-8") from None
