"""Text as programs write it: UTF-8, UTF-16 of PowerShell, and the code pages of Windows."""

import codecs
import re

UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

PAGES = ("cp850", "cp866", "cp1251")
"""Code pages of one byte. All have digits and signs where ASCII has them; the last two also write Russian units."""

MIXED = re.compile("[\u0a0d\u0a20-\u0a7e\u0d0a\u0d20-\u0d7e]")
"""Letters that ends of lines in ASCII become where two bytes are read as one of UTF-16: the scripts of Punjabi and
Malayalam."""

UNPRINTABLE = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")
RUSSIAN_MS = re.compile(r"\d\s?мс")


def decode(data: bytes) -> str | None:
    """The text of a file, or none if its bytes are no text."""
    if data.startswith(UTF16):
        return _wide(data, "utf-16")
    # Without its mark, UTF-16 has a zero in every other byte of what is ASCII.
    if data[1::2].count(0) > len(data) // 4:
        return _wide(data, "utf-16-le")
    if (text := _tried(data, "utf-8-sig")) is not None:
        return None if "\0" in text else text
    if UNPRINTABLE.search(data):
        return None
    texts = [text for page in PAGES if (text := _tried(data, page)) is not None]
    return next((text for text in texts if RUSSIAN_MS.search(text)), texts[0] if texts else None)


def _wide(data: bytes, encoding: str) -> str | None:
    """The text of UTF-16, to where it is cut; none where another program has appended text of one byte a letter."""
    text = _tried(data[: len(data) & ~1], encoding)
    return None if text is None or MIXED.search(text) else text


def _tried(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError:
        return None
