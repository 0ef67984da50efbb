"""The raw state of a connection: what an observation and a reward of one's own are made from.

One structured array of float64, a row per environment, filled in place. `state["unsent"]` has a number per environment;
`state["paths"]["srtt_ms"]` has one per environment and path, in the order in which the scenario names its paths. A path
that is not up has zeros, `is_up` too. Units are in the names: `_ms`, `_mbps`; everything else is bytes or a count.

| of the connection | |
|---|---|
| `now_ms` | since the start of the transfer |
| `packet_bytes` | payload of the packet at hand; 0 if none is |
| `una`, `next`, `end` | offsets: everything before `una` has arrived as far as the sender can tell; `next` is the \
first byte that was never sent; `end` is the end of what the application has written |
| `unsent` | written, and not yet assigned to a path |
| `window`, `credit` | the receive window that the peer advertises, and the part of it that is left for new data |
| `message_start`, `message_end`, `message_age_ms`, `message_class` | the message of `next`; bulk data are one |
| `deadline_ms` | when that message should have arrived, since the start; infinite without a deadline |

| of each path | |
|---|---|
| `is_up`, `is_open`, `is_active` | 1 or 0: usable; may send now; not a backup |
| `mss` | payload of its largest packet |
| `latest_rtt_ms`, `srtt_ms`, `rttvar_ms`, `min_rtt_ms`, `mean_rtt_ms` | round-trip times: newest sample, smoothed, \
mean deviation, smallest, mean |
| `cwnd`, `ssthresh` | congestion window; slow-start threshold, infinite until the first reduction |
| `bytes_in_flight`, `queued`, `space` | sent and not acknowledged; assigned and not sent; free window |
| `next` | the first offset after everything that the path has carried |
| `delivery_rate_mbps`, `pacing_rate_mbps` | the newest sample of the delivery rate; what the pacer allows |
| `link_rate_mbps` | the bottleneck's rate as the controller knows it; 0 where it does not say |
| `bytes_sent`, `bytes_acked`, `bytes_lost` | since the path came up |
| `packets_sent`, `packets_acked`, `packets_lost`, `packets_retransmitted` | the same, in packets |
| `pto_count` | consecutive timeouts without progress |
"""

import numpy as np
import numpy.typing as npt

from weftway._native import VectorEnv as NativeVectorEnv

State = npt.NDArray[np.void]
"""A structured array with the fields above, (environments,)."""


def dtype(paths: int) -> np.dtype[np.void]:
    """The type of a row, for connections of at most so many paths."""
    connection, each = NativeVectorEnv.state_names()
    of_a_path = np.dtype([(name, np.float64) for name in each])
    return np.dtype([*((name, np.float64) for name in connection), ("paths", of_a_path, (paths,))])


def empty(envs: int, paths: int) -> State:
    """An array to be filled."""
    return np.zeros(envs, dtype(paths))


def numbers(state: State) -> npt.NDArray[np.float64]:
    """Memory of the state as plain numbers: (environments, numbers)."""
    return state.view(np.float64).reshape(len(state), -1)
