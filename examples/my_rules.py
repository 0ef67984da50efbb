"""A scheduler of one's own, in Python:

./weft compare scenarios/wifi-lte.toml --scheduler examples/my_rules.py:Patient,min-rtt
"""


class Patient:
    """Waits for the fastest path rather than use one that is slower by more than `FACTOR`."""

    FACTOR = 2.0

    def select(self, cx):
        """A path, its id, `weftway.Ahead(path, offset)`, `weftway.Repeat(path, offset)`, or None to wait."""
        fastest = min(cx.paths, key=lambda path: path.srtt_ms)
        if fastest.is_open:
            return fastest
        near = [path for path in cx.sendable() if path.srtt_ms <= self.FACTOR * fastest.srtt_ms]
        return min(near, key=lambda path: path.srtt_ms, default=None)
