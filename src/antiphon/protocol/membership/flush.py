"""What the participants of one old view hold together, and who lacks what of it.

Holdings are written per stream of the old view as `[high, low, high, …]`: everything up to `high`, and the ranges above it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from antiphon.model.ranges import Ranges


def union(holdings: Iterable[Sequence[Sequence[int]]]) -> list[list[int]]:
    """Everything that any of these holds."""
    whole: list[list[int]] = []
    for streams in zip(*holdings, strict=False):
        if all(list(have) == list(streams[0]) for have in streams):
            whole.append(list(streams[0]))
            continue
        ranges = Ranges([(0, max(have[0] for have in streams))])
        for have in streams:
            for low, high in zip(have[1::2], have[2::2], strict=False):
                ranges.add(low, high)
        pieces = list(ranges)
        whole.append([pieces[0][1], *(number for piece in pieces[1:] for number in piece)])
    return whole


def cut_off(have: Sequence[int], limit: int) -> list[int]:
    """The holdings of one stream without what is above `limit`."""
    kept = [min(have[0], limit)]
    for low, high in zip(have[1::2], have[2::2], strict=False):
        if low <= limit:
            kept += (low, min(high, limit))
    return kept


def is_well_formed(have: Sequence[Sequence[int]], streams: int) -> bool:
    """Whether these are the holdings of so many streams: each a position and sorted, disjoint ranges above it."""
    if len(have) != streams:
        return False
    return all(len(stream) % 2 == 1 and stream and all(low < high for low, high in _steps(stream)) for stream in have)


def _steps(stream: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Pairs that must grow: a range starts beyond what is before it and a gap, and may be one number long."""
    yield from ((stream[at] + 1, stream[at + 1]) for at in range(0, len(stream) - 1, 2))
    yield from ((stream[at], stream[at + 1] + 1) for at in range(1, len(stream) - 1, 2))
