"""`weft list`."""

from weftway import catalogue, listing

from .options import JSON
from .output import out, print_json


def command(as_json: JSON = False) -> None:
    """Lists what can be run: schedulers, controllers, scenarios."""
    found = catalogue.entries()
    if as_json:
        print_json(found)
        return
    kinds = {kind: [one for one in found if one["kind"] == kind] for kind in ("scheduler", "controller")}
    for part in listing.registry(kinds["scheduler"], kinds["controller"]):
        out.print(part, "")
    for kind in ("backend", "scenario", "experiment"):
        if some := [one for one in found if one["kind"] == kind]:
            out.print(listing.files(f"{kind}s", some), "")
