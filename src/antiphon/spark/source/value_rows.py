"""Values as rows: one row per value, and with `gaps=report` one per gap.

    >>> spark.read.format("antiphon").options(store=…, topic="crash", gaps="report").load().show()
    +---+--------------------+-------------+----+---------+--------+
    |seq|                time|         data| key|      gap|gap_last|
    +---+--------------------+-------------+----+---------+--------+
    |  1|                NULL|         NULL|NULL|collected|       2|
    |  3|1970-01-02 04:11:...|[41 31 20 33]|    |     NULL|    NULL|
    +---+--------------------+-------------+----+---------+--------+

`time` is the store's time, which is nobody's wall clock: on SQLite it counts from the boot of the machine and only differences mean
something; on JetStream it is the servers' clock. It never falls with `seq`, so it makes a watermark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from antiphon.spark.source.passage import Piece

if TYPE_CHECKING:
    import pyarrow

COLUMNS = "seq long, time timestamp, data binary, key string"
GAP_COLUMNS = ", gap string, gap_last long"
_MICROSECOND = 1_000
"""In nanoseconds."""


def batches(pieces: Iterator[Piece], with_gaps: bool) -> Iterator[pyarrow.RecordBatch]:
    """One Arrow batch per piece; O(1) Python objects per value beyond the value itself."""
    import pyarrow as pa

    schema = pa.schema(
        [("seq", pa.int64()), ("time", pa.timestamp("us", tz="UTC")), ("data", pa.binary()), ("key", pa.string())]
        + ([("gap", pa.string()), ("gap_last", pa.int64())] if with_gaps else [])
    )
    for values, gaps in pieces:
        if not values and not gaps:
            continue
        seqs, times, data, keys = [
            list(column) for column in zip(*((v.seq, v.time // _MICROSECOND, v.data, v.key) for v in values), strict=True)
        ] or [[], [], [], []]
        columns = [seqs, times, data, keys]
        if with_gaps:
            columns += [[None] * len(values), [None] * len(values)]
        for gap in gaps:
            for column, entry in zip(columns, (gap.first, None, None, None, gap.why, gap.last), strict=True):
                column.append(entry)
        batch = pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
        )
        yield batch.sort_by("seq") if gaps else batch
