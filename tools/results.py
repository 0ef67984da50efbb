"""Results book of the site: pages of `weft reproduce --full --stacks --book`, kept packed.

The command takes more than half an hour and needs Linux's MPTCP with root, so `./weft docs` does not run it. It unpacks
what the last campaign made:

    ./weft reproduce --full --stacks --out out/full --book out/book
    ./weft python tools/results.py out/book      # writes site/data/results.json.gz
"""

import gzip
import json
import sys
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "site/data/results.json.gz"


def packed(folder: Path) -> bytes:
    """Pages and drawings of a book, the same bytes for the same book."""
    files = sorted(file for kind in ("md", "svg") for file in folder.rglob(f"*.{kind}"))
    pages = {file.relative_to(folder).as_posix(): file.read_text(encoding="utf-8") for file in files}
    return gzip.compress(json.dumps(pages, ensure_ascii=False).encode(), mtime=0)


def pages() -> dict[str, str]:
    """Text of each page and drawing, by its name in the book."""
    found: dict[str, str] = json.loads(gzip.decompress(DATA.read_bytes()))
    return found


if __name__ == "__main__":
    DATA.write_bytes(packed(Path(sys.argv[1])))
