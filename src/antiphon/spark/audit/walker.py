"""The walk on the executors: see `walk`."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from antiphon.spark.audit.life import Life
from antiphon.spark.audit.promised import Description, described
from antiphon.spark.audit.sheet import DELIVER, GROUP, KINDS, LEAVE, ORPHANED, TOPIC, Limits, Longs

if TYPE_CHECKING:
    import pyarrow

HANDED_ON = 5_000
"""So many entries, or `HANDED_ON_BYTES` of what is packed in them, go on together."""
HANDED_ON_BYTES = 8 << 20
_COLUMNS = ("group_id", "member_id", "kind", "index", "view", "sender_id", "first", "last", "position", "at", "sort")


def walk(batches: Iterable[pyarrow.RecordBatch], limits: Limits) -> Iterator[pyarrow.RecordBatch]:
    """Rows sorted by group, member and index become entries."""
    walker = Walker(limits)
    for batch in batches:
        if batch.num_rows:
            yield from walker.take(batch)
    yield from walker.end()


class Walker:
    def __init__(self, limits: Limits) -> None:
        self._most = limits.of_member
        self._found = Found()
        self._life: Life | None = None

    def take(self, batch: pyarrow.RecordBatch) -> Iterator[pyarrow.RecordBatch]:
        columns = {name: _longs(batch.column(name)) for name in _COLUMNS}
        kinds = columns["kind"]
        yield from _few(batch, kinds, columns["sort"])
        lists = _Lists(batch)
        described_at = _descriptions(batch, kinds)
        keys = columns["group_id"], columns["member_id"]
        changes = np.flatnonzero((keys[0][1:] != keys[0][:-1]) | (keys[1][1:] != keys[1][:-1])) + 1
        bounds = [0, *changes.tolist(), batch.num_rows]
        for begin, end in itertools.pairwise(bounds):
            group, member = int(keys[0][begin]), int(keys[1][begin])
            if self._life is None or (self._life.group, self._life.member) != (group, member):
                self._finish()
                self._life = Life(group, member, self._most, self._found)
            if (kinds[begin:end] == TOPIC).any():
                self._life.add(kind="topic")
                continue
            told = [one for place, one in described_at.items() if begin <= place < end] if described_at else []
            self._life.take({name: column[begin:end] for name, column in columns.items()}, lists.part(begin, end), told)
            if self._found.full:
                yield self._found.batch()

    def end(self) -> Iterator[pyarrow.RecordBatch]:
        self._finish()
        if len(self._found):
            yield self._found.batch()

    def _finish(self) -> None:
        if self._life is not None:
            self._life.end()
            self._life = None


class Found:
    """Entries that are to be handed on."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in _names()}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._columns["part"])

    @property
    def full(self) -> bool:
        return self._bytes >= HANDED_ON_BYTES or len(self) >= HANDED_ON

    def add(self, **values: Any) -> None:
        for name, column in self._columns.items():
            column.append(values.get(name))
        self._bytes += len(values.get("sheet") or b"")

    def batch(self) -> pyarrow.RecordBatch:
        """All of them; there are none afterwards."""
        import pyarrow as pa

        # Lists are empty rather than absent: see `walk`.
        count, fields = len(self), list(_schema())
        values = [[()] * count if pa.types.is_list(field.type) else self._columns[field.name] for field in fields]
        arrays = [pa.array(column, field.type) for column, field in zip(values, fields, strict=True)]
        self._columns, self._bytes = {name: [] for name in _names()}, 0
        return pa.RecordBatch.from_arrays(arrays, schema=_schema())


class _Lists:
    """Names and checksums of a batch, by row."""

    def __init__(self, batch: pyarrow.RecordBatch) -> None:
        names, checks = batch.column("names"), batch.column("checks")
        self._name_at, flat = _offsets(names)
        self._names = [_longs(flat.field(place)) for place in range(3)]
        self._check_at, values = _offsets(checks)
        self._values = _longs(values)

    def part(self, begin: int, end: int) -> tuple[Longs, list[Longs], Longs, Longs]:
        """Of some rows: how many names each has, the names; how many checksums each has, and those."""
        name_at, check_at = self._name_at[begin : end + 1], self._check_at[begin : end + 1]
        names = [one[name_at[0] : name_at[-1]] for one in self._names]
        return np.diff(name_at), names, np.diff(check_at), self._values[check_at[0] : check_at[-1]]


def _few(batch: pyarrow.RecordBatch, kinds: Longs, sorts: Longs) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow as pa

    chosen = np.flatnonzero(((kinds >= GROUP) & (kinds <= LEAVE)) | ((kinds == DELIVER) & (sorts == ORPHANED)))
    if not len(chosen):
        return
    few = batch.take(pa.array(chosen))
    names = ["orphan" if code == DELIVER else KINDS[code] for code in kinds[chosen].tolist()]
    own = {"part": few.column("group_id"), "kind": pa.array(names)}
    arrays = [
        own[field.name]
        if field.name in own
        else few.column(field.name).cast(field.type)
        if field.name in few.schema.names
        else pa.nulls(len(chosen), field.type)
        for field in _schema()
    ]
    yield pa.RecordBatch.from_arrays(arrays, schema=_schema())


def _descriptions(batch: pyarrow.RecordBatch, kinds: Longs) -> dict[int, Description]:
    """Of each `group` row in the batch, by its place: what it says."""
    notes = batch.column("note")
    return {place: described(notes[place].as_py()) for place in np.flatnonzero(kinds == GROUP).tolist()}


def about_of(note: str | None) -> dict[str, Any]:
    """What a `view` row says, as far as it can be read."""
    try:
        about = json.loads(note or "{}")
    except ValueError:
        return {}
    return about if isinstance(about, dict) else {}


def _longs(column: Any) -> Longs:
    return np.asarray((column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False), np.int64)


def _offsets(column: Any) -> tuple[Longs, Any]:
    """Where each row's list begins, and all lists as one; a list that is not there is empty."""
    import pyarrow.compute as pc

    lengths = _longs(pc.list_value_length(column))
    return np.concatenate([[0], np.cumsum(lengths)]), column.flatten()


@cache
def _schema() -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema

    from antiphon.spark.audit.walk import ENTRIES

    return to_arrow_schema(ENTRIES)


@cache
def _names() -> tuple[str, ...]:
    return tuple(_schema().names)
