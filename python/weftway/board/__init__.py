"""The board: editions of cells that do not change, results that others can repeat, and their standings.

>>> from weftway.board import edition, entries  # doctest: +SKIP
>>> newest = edition.load("2027.1")  # doctest: +SKIP
>>> results = entries.of(newest)  # doctest: +SKIP

`edition` reads an edition and draws its cells, `runs` runs an entry in them, `result` is the file of an entry,
`entries` has those of the source tree, `judgement` compares them, `verification` repeats a part of one, and `page`
shows all. Cells are those of `weftway.rank`, and so are costs, halves, means and intervals.
"""
