"""`weft bench`."""

from .options import JSON
from .output import out, print_json


def command(as_json: JSON = False) -> None:
    """Measures the simulator and the schedulers on this machine."""
    from weftway import bench

    figures = bench.measure()
    if as_json:
        print_json([figures])
    else:
        tables_ = (bench.engine_table, bench.decision_table, bench.learned_table, bench.environment_table)
        out.print(*(table(figures) for table in tables_))
