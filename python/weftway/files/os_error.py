"""Reason that the system gave for an error with a file."""

import errno
import os
import re


def reason(error: OSError) -> tuple[int, str]:
    """The number and the text of it; Polars and the native module hand on the text alone."""
    if error.errno is not None:
        return error.errno, error.strerror or str(error)
    match = re.search(r"\(os error (\d+)\)", str(error))
    number = int(match[1]) if match else errno.EIO
    return number, os.strerror(number)
