"""A folder's lock: processes that read and write its files take turns."""

import fcntl
import os
from pathlib import Path


def lock(folder: Path) -> int:
    """Waits until nobody else has the lock. It is had until what is returned is closed, or its process ends."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
    except OSError:
        os.close(opened)
        # Network file systems lock only files that are open for writing.
        opened = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
        fcntl.flock(opened, fcntl.LOCK_EX)
    return opened
