"""Lists that may be longer than a frame, cut into parts that are not.

Sizes are estimates from above, so a part never exceeds its frame; a single entry that is larger than the room makes a part of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from antiphon.model.control import Epoch, Holdings
from antiphon.model.ids import GroupId, MemberId

Entry = TypeVar("Entry")

NUMBER_BYTES = 9
"""The most a number takes on the wire."""
HEADER_BYTES = 160
"""More than the fields of a request, an answer or a piece take beside its ids and lists."""
ENTRY_BYTES = 16
"""More than an entry of a list takes beside its ids, numbers and bytes."""
_RANGES_PER_ENTRY = 64


def room(frame_bytes: int, group: GroupId, *members: MemberId) -> int:
    """What a frame leaves for lists when it names these."""
    return max(frame_bytes - HEADER_BYTES - sum(len(name.encode()) for name in (group, *members)), 1)


def pack(entries: Iterable[tuple[int, Entry]], space: int) -> list[list[Entry]]:
    """Entries, each with its size, in as many lists as are needed, at least one."""
    parts: list[list[Entry]] = [[]]
    used = 0
    for size, entry in entries:
        if parts[-1] and used + size > space:
            parts.append([])
            used = 0
        parts[-1].append(entry)
        used += size
    return parts


def holdings_entries(holdings: Holdings) -> Iterator[tuple[int, tuple[MemberId, list[int]]]]:
    """The ranges of each sender, a few at a time, with the bytes they take."""
    for sender, flat in holdings.items():
        for at in range(0, len(flat), 2 * _RANGES_PER_ENTRY):
            some = flat[at : at + 2 * _RANGES_PER_ENTRY]
            yield ENTRY_BYTES + len(sender.encode()) + NUMBER_BYTES * len(some), (sender, some)


def epoch_bytes(epoch: Epoch) -> int:
    return ENTRY_BYTES + NUMBER_BYTES * (2 + len(epoch.parents))
