"""`python -m weftway` is the command `weft`."""

from weftway.cli import main

main()
