"""The verbs of `weft`, a file each.

A module here has a function `command`, whose signature is the command line and whose docstring is the help. What only
one verb needs is imported when it runs: `weft list` waits neither for Polars nor for JAX.
"""
