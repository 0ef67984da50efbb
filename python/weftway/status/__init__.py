"""What a running `weft proxy`, `relay` or `send` tells of itself: to `weft top`, Prometheus, systemd, as lines of JSON.

A program gets its progress ten times a second. Once a second `Snapshots` makes a snapshot of it, a dictionary that is
the same for all that ask (docs/how-to/see.md). `weft top` may ask it to switch its scheduler, and for its last hour.
"""
