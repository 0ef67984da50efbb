"""The verbs of `weft`, a file each.

A module here has a function `command`, whose signature is the command line and whose docstring is the help. What only
one verb needs is imported when it runs: `weft list` waits neither for Polars nor for JAX.
"""

import os
import sys


def _open_what_is_closed() -> None:
    """Gives the command a stream for each that it was started without, as by `>&-`: nothing comes, and nothing is kept.

    Here, since the modules of this folder look at the streams when they are imported.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # In this order each gets the number of the one that is closed, and so what the command starts has it too.
            number = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode))


_open_what_is_closed()
