"""A range of a topic's numbers: what one task reads."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition


@dataclass(frozen=True)
class Span(InputPartition):
    """The numbers after `after` up to and including `last`."""

    after: int
    last: int


def divided(after: int, last: int, parts: int, least: int) -> list[Span]:
    """The numbers after `after` up to `last` in up to `parts` spans of about the same size, in order, and not below `least` without need.

    The same numbers are always divided in the same way, so that a task that is repeated reads the same.

    >>> divided(0, 10, 3, 2)
    [Span(after=0, last=3), Span(after=3, last=6), Span(after=6, last=10)]
    """
    count = last - after
    if count <= 0:
        return []
    parts = max(1, min(parts, count // least))
    ends = [after + count * part // parts for part in range(parts + 1)]
    return [Span(low, high) for low, high in pairwise(ends)]
