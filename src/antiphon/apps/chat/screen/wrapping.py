"""Text in rows of a given width, measured in the cells of a terminal."""

from __future__ import annotations

from rich.cells import cell_len, chop_cells, set_cell_size

_LEAST = 8
"""A first row with less room than this is left empty."""


def wrapped(text: str, first: int, rest: int) -> list[str]:
    """The text in rows, the first of at most `first` cells and the others of at most `rest`; words are cut only where they must be.
    At least one row."""
    rest = max(rest, 1)
    if first >= cell_len(text):
        return [text]
    rows = [""]
    room = first if first >= min(_LEAST, rest) else 0
    for word in text.split(" "):
        width = cell_len(word)
        gap = 1 if rows[-1] else 0
        if width + gap <= room:
            rows[-1] += " " * gap + word
            room -= width + gap
            continue
        for piece in chop_cells(word, rest) or [""]:
            rows.append(piece)
        room = rest - cell_len(rows[-1])
    return rows


def cut(text: str, width: int) -> str:
    """The beginning of the text, as much as fits, with a sign if that is not all."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1) + "…" if width > 0 else ""
