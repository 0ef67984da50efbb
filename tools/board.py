"""Page of the board, from the edition's file and its entries' files. Nothing is run."""

from weftway.board import edition, entries, judgement, page


def text(name: str | None = None) -> str:
    """Page of an edition; of the newest if none is named."""
    there = edition.load(name or edition.names()[-1])
    drawn, results = there.drawn(), entries.of(there)
    return page.render(there, drawn, judgement.judged(there, drawn, results, entries.floor(there)), results)
