"""Which rows of which files make up each writer's trace: each index once, none missing, up to the first that is.

The writers of a trace number their rows without gaps, and `inspection` has found the stretches of each file; so this is a walk over a few
numbers, and no row is moved to find out. `continue_writers` is told where each writer was (nowhere, or where the last ingest left it) and
gives the takes, the writers as they are afterwards, and what was not taken.

    stretches of ana          was at -1      takes          aside
    a.parquet  0 … 9                         a  0 … 9
    b.parquet  5 … 14                        b 10 … 14      b  5: duplicate index, 5 rows
    d.parquet 20 … 29                                       d 15: missing index, 10 rows

Costs: a sort of the stretches. Keeps: them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from antiphon.spark.stretch import UNSOUND, Stretch, jumped

DUPLICATE_INDEX = "duplicate index"
MISSING_INDEX = "missing index"

Key: TypeAlias = tuple[str, str]
"""run, writer"""


class Writer(msgspec.Struct, kw_only=True):
    """A row of the table `writers`."""

    run: str
    writer: str
    rows: int = 0
    contiguous: int = -1
    closed: bool = False
    crashed: bool = False
    first_at: int = 0
    last_at: int = 0
    first_wall: int = 0
    last_wall: int = 0
    clock_jumps: int = 0


class Aside(msgspec.Struct, frozen=True):
    """A row of the table `aside`. `row`: the first index that is there twice, or that is missing; null where a whole file is meant."""

    path: str
    row: int | None
    reason: str
    amount: int


@dataclass(frozen=True)
class Take:
    """The rows `first … last` (indexes) of a stretch."""

    stretch: Stretch
    first: int
    last: int

    @property
    def rows(self) -> int:
        return self.last - self.first + 1


@dataclass
class Continuation:
    takes: list[Take] = field(default_factory=list)
    writers: dict[Key, Writer] = field(default_factory=dict)
    aside: list[Aside] = field(default_factory=list)
    waiting: set[str] = field(default_factory=set)
    """Files with rows beyond a hole: what fills it may still come."""


def continue_writers(stretches: Iterable[Stretch], known: Mapping[Key, Writer] | None = None) -> Continuation:
    result = Continuation(writers={key: msgspec.structs.replace(writer) for key, writer in (known or {}).items()})
    by_writer: defaultdict[Key, list[Stretch]] = defaultdict(list)
    for stretch in stretches:
        if stretch.reason is None:
            by_writer[stretch.run or "", stretch.writer or ""].append(stretch)
        else:
            result.aside.append(Aside(stretch.path, stretch.row if stretch.reason == UNSOUND else None, stretch.reason, stretch.rows))
    for key in sorted(by_writer):
        # The longest first of those that begin together: one take instead of two.
        ordered = sorted(by_writer[key], key=lambda each: (each.index, -each.rows, each.path, each.row))
        writer = result.writers.setdefault(key, Writer(run=key[0], writer=key[1]))
        _continue(writer, ordered, result)
        if not writer.rows:
            del result.writers[key]
    result.aside.sort(key=lambda each: (each.path, each.row or 0, each.reason))
    return result


def _continue(writer: Writer, ordered: list[Stretch], result: Continuation) -> None:
    for stretch in ordered:
        wanted = writer.contiguous + 1
        if stretch.index > wanted:
            result.aside.append(Aside(stretch.path, wanted, MISSING_INDEX, stretch.rows))
            result.waiting.add(stretch.path)
            continue
        repeated = min(stretch.rows, wanted - stretch.index)
        if repeated:
            result.aside.append(Aside(stretch.path, stretch.index, DUPLICATE_INDEX, repeated))
        if repeated == stretch.rows:
            continue
        result.takes.append(Take(stretch, wanted, stretch.last_index))
        if not writer.rows:
            writer.first_at, writer.first_wall = stretch.first_at, stretch.first_wall
        elif not repeated:
            writer.clock_jumps += jumped(writer.last_at, writer.last_wall, stretch)
        # A repeated beginning may have had jumps of its own; they are counted where they were taken, and the rest cannot be told apart.
        writer.clock_jumps += stretch.clock_jumps if not repeated else 0
        writer.rows += stretch.rows - repeated
        writer.contiguous = stretch.last_index
        writer.closed, writer.crashed = stretch.closed, writer.crashed or stretch.crashed
        writer.last_at, writer.last_wall = stretch.last_at, stretch.last_wall
