"""`weft advise`: which settings that a user can deploy are best for a scenario, and for scenarios near it.

`candidates` lists what can be set, `neighbours` draws scenarios near the given one, `runs` simulates every candidate in
each of them, `choice` picks one, and `words` says so in six lines; `setup` writes them as files that last.
"""

from .runs import Advice, Request, advise, check
from .words import checked, lines, records

__all__ = ["Advice", "Request", "advise", "check", "checked", "lines", "records"]
