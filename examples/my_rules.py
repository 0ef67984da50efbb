"""Schedulers of one's own, in Python:

./weft compare scenarios/wifi-lte.toml --scheduler examples/my_rules.py:Patient,min-rtt
./weft compare short-chunks --scheduler examples/my_rules.py:Finish,min-rtt
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


class Finish:
    """Uses a slower path only for what the fastest one could not send before a packet on the slower one arrives."""

    def select(self, cx):
        """Min-RTT as long as there is much to send; near the end of a message, the fastest path alone."""
        fastest = min(cx.paths, key=lambda path: path.srtt_ms)
        if fastest.is_open:
            return fastest
        left_ms = (cx.flow.unsent + fastest.bytes_in_flight) * fastest.srtt_ms / fastest.cwnd
        worth = [path for path in cx.sendable() if path.srtt_ms - fastest.srtt_ms < left_ms]
        return min(worth, key=lambda path: path.srtt_ms, default=None)
