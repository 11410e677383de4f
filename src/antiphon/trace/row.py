"""One row of a trace, with every column of the schema."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Name: TypeAlias = tuple[int, str, int]
"""`(seqno, sender, number)`, as the column `names` has them."""


class Row(NamedTuple):
    """The columns in the order of `antiphon.trace.schema.COLUMNS`; it is a plain tuple, so tables can be made of lists of them."""

    run: str
    writer: str
    index: int  # type: ignore[assignment]  # tuple.index, which nobody misses
    kind: str
    at: int = 0
    wall: int = 0
    hlc: int = 0
    group: str | None = None
    member: str | None = None
    view: int = 0
    sender: str | None = None
    first: int = 0
    last: int = 0
    position: int = 0
    amount: int = 0
    members: list[str] | None = None
    names: list[Name] | None = None
    checks: list[int] | None = None
    note: str | None = None


Taken: TypeAlias = tuple[
    int, str, int, int, int, str | None, str | None, int, str | None, int, int, int, int,
    list[str] | None, list[Name] | None, list[int] | None, str | None,
]  # fmt: skip
"""A row as a recorder keeps it: without run and writer, which are the same for all of its rows."""
