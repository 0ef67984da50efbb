"""`weft doctor`."""

from .options import JSON
from .output import out, print_json


def command(as_json: JSON = False) -> None:
    """Tells what this machine's links, rights and kernel allow: interfaces, sockets, emulated links, MPTCP."""
    from weftway.links import doctor

    checks = doctor.examine()
    if as_json:
        print_json(checks)
    else:
        out.print(doctor.table(checks))
