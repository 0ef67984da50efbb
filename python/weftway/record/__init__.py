"""`weft record`: rate, round trip and loss of several links at once, both directions, on one clock, as a drive.

| module | what is in it |
|---|---|
| `wire` | the packets that both ends exchange |
| `probes` | when probes leave, which is all that is sent unless load is asked for |
| `window` | how much load is under way |
| `arrivals` | what came, as short records that the other end can ask for |
| `channel` | one path at one end, without sockets or a clock: packets in, packets out, when to come back |
| `places` | sockets at interfaces and addresses |
| `listening`, `recording` | the two ends |
| `estimate` | from what was sent and what came to a line for each moment |
| `report` | what is told, and the files |
"""
