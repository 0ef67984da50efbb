"""`weft advise`: which settings that a user can deploy are best for a scenario, and for scenarios near it.

`candidates` lists what can be set, `neighbours` draws scenarios near the given one, `runs` simulates every candidate in
each of them, `choice` picks one, and `words` says so. `carry` prints the commands for both ends, `setup`
writes files that last, and `added` tells what a further link would bring.
"""

from .candidates import place
from .runs import Advice, Request, advise, check
from .words import checked, lines, records, with_added

__all__ = ["Advice", "Request", "advise", "check", "checked", "lines", "place", "records", "with_added"]
