"""Values as TOML has them: what is written into scenario files, and what `--set` takes."""

import json
import re
from typing import Any

BARE = re.compile(r"[A-Za-z0-9_-]+")


def inline(value: Any) -> str:
    """A value on one line.

    >>> inline({"auto": "6 MiB", "a b": [True, 1.5]})
    '{ auto = "6 MiB", "a b" = [true, 1.5] }'
    """
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key(str(name))} = {inline(item)}' for name, item in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(inline, value))}]"
    return str(value)


def setting(value: Any) -> str:
    """A value as `--set` takes it: a text stands for itself."""
    return value if isinstance(value, str) else inline(value)


def key(name: str) -> str:
    """A key, in quotation marks where it needs them."""
    return name if BARE.fullmatch(name) else quoted(name)


def quoted(text: str) -> str:
    """A text in quotation marks."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
