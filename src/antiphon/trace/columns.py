"""Rows as a recorder keeps them, turned into Arrow columns.

Columns are laid out in buffers here, because pyarrow's own way from Python lists loads pandas where that is installed: 0.3 s of CPU time
and 50 MB at every node that records. Cost: about 2 µs per row.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

from antiphon.trace.row import Taken
from antiphon.trace.schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow


class Columns:
    """Makes record batches of one writer's rows."""

    def __init__(self, run: str, writer: str) -> None:
        self._schema = arrow_schema()
        self._run, self._writer = run, writer

    def batch(self, rows: Sequence[Taken]) -> pyarrow.RecordBatch:
        """The rows, at least one, with run and writer."""
        import pyarrow as pa

        count = len(rows)
        columns: list[Sequence[Any]] = [(self._run,) * count, (self._writer,) * count, *zip(*rows, strict=True)]
        arrays = [column_of(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def column_of(values: Sequence[Any], kind: pyarrow.DataType) -> pyarrow.Array:
    """Values of one of the schema's types, some of which may be None, as an array."""
    import pyarrow as pa

    if pa.types.is_int64(kind):
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(array("q", values))])
    if values.count(None) == len(values):
        return pa.nulls(len(values), kind)
    if pa.types.is_dictionary(kind):
        return _words(values, kind)
    if pa.types.is_string(kind):
        return _strings(values)
    return _lists(values, kind)


def _words(values: Sequence[str | None], kind: pyarrow.DataType) -> pyarrow.Array:
    import pyarrow as pa

    different = [word for word in dict.fromkeys(values) if word is not None]
    code_by_word: dict[str | None, int] = {word: code for code, word in enumerate(different)}
    words, absent = _strings(different), None in values
    if absent:
        code_by_word[None] = 0
    codes = array("i", map(code_by_word.__getitem__, values))
    present = _present(values) if absent else None
    return pa.DictionaryArray.from_arrays(pa.Array.from_buffers(kind.index_type, len(values), [present, pa.py_buffer(codes)]), words)


def _strings(values: Sequence[str | None]) -> pyarrow.Array:
    import pyarrow as pa

    encoded = [b"" if value is None else value.encode(errors="replace") for value in values]
    buffers = [_present(values), _offsets(encoded), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def _lists(values: Sequence[Sequence[Any] | None], kind: pyarrow.DataType) -> pyarrow.Array:
    import pyarrow as pa

    lists = [value or () for value in values]
    inside, child = list(chain.from_iterable(lists)), kind.value_type
    if pa.types.is_struct(child):
        fields = list(zip(*inside, strict=True)) or [()] * child.num_fields
        parts = [column_of(part, child.field(place).type) for place, part in enumerate(fields)]
        items = pa.Array.from_buffers(child, len(inside), [None], children=parts)
    else:
        items = column_of(inside, child)
    return pa.Array.from_buffers(kind, len(values), [_present(values), _offsets(lists)], children=[items])


def _offsets(values: Sequence[Sequence[Any]]) -> pyarrow.Buffer:
    import pyarrow as pa

    return pa.py_buffer(array("i", accumulate(map(len, values), initial=0)))


def _present(values: Sequence[object]) -> pyarrow.Buffer | None:
    """One bit per value, the lowest first, for those that are not None; nothing when all are there."""
    import pyarrow as pa

    if None not in values:
        return None
    bits = "".join(["0" if value is None else "1" for value in reversed(values)])
    return pa.py_buffer(int(bits, 2).to_bytes((len(bits) + 7) // 8, "little"))
