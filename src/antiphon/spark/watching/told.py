"""A row of a trace as the watch reads it, and what the watch says."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import Struct


class Named(Struct, frozen=True):
    """Message `seqno` names message `number` of `sender`."""

    seqno: int
    sender: str
    number: int


class Told(Struct, frozen=True):
    """The columns that matter, by their names in the trace."""

    writer: str
    index: int
    kind: str
    wall: int = 0
    member: str = ""
    view: int = 0
    sender: str = ""
    first: int = 0
    last: int = 0
    position: int = 0
    amount: int = 0
    members: tuple[str, ...] = ()
    names: tuple[Named, ...] = ()
    checks: tuple[int, ...] = ()
    note: str = ""
    since: int = -1
    until: int = -1
    """The rows of its writer from `since` to `until` have all been read with it, those included that the watch is not told. Negative: it is
    known of no row but this."""

    @property
    def spot(self) -> Spot:
        return Spot(self.writer, self.index)


class Spot(Struct, array_like=True, frozen=True):
    """Which row it is."""

    writer: str
    index: int


class Breach(NamedTuple):
    """A promise that was not kept: what happened, in one sentence, and the rows that alone prove it."""

    promise: str
    sentence: str
    witness: tuple[Spot, ...]


decode_row = msgspec.json.Decoder(Told).decode
STRETCH = ("since", "until")
COLUMNS = tuple(name for name in Told.__struct_fields__ if name not in STRETCH)
"""Those that are in the trace."""
KINDS = ("group", "send", "deliver", "view", "settled", "stable", "leave", "gap")
