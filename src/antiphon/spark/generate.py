"""Traces of any size, made on the executors: clean ones, of groups that did nothing wrong.

Each group is a play in rounds. In a round every member sends one batch, then receives and delivers everybody's: in a total order in the
same sequence everywhere, in the other orders each member in one of its own. All batches of a round were sent before any of it was
delivered, so they are concurrent, and every sequence of them is causal. In a semantic group the first message of a batch answers the last
message of a batch of the round before; in a chain a round is one message, which answers the one before it.

    shape                       deliveries                  rows
    Cast(members=4, rounds=R)   16 · R · batch              4 · (4 + 9 · R): one send, four receives, four deliveries, and four markers

A member is one writer. What is cut into pieces for the executors is (group, member, rounds from … to), so that one large group is made by
all of them. Keeps: one piece of `ROUNDS` rounds at a time per task. Costs: about 1 µs per row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from antiphon.spark.play import MARKERS, Piece
from antiphon.spark.tables import EVENTS, table_of

ROUNDS = 8_192
"""Most rounds in one piece."""
FILE_ROWS = 250_000


class Cast(msgspec.Struct, frozen=True, kw_only=True):
    """`count` groups that play alike, `name`-0, `name`-1, …"""

    name: str
    order: str = "total"
    members: int = 4
    rounds: int = 1
    batch: int = 64
    count: int = 1
    chain: bool = False
    """One message per round, each an answer to the one before."""

    @property
    def rows(self) -> int:
        per_round = 2 * self.members + 1 if not self.chain else 2
        sends = self.rounds if self.chain else 0
        return self.count * (self.members * (MARKERS + per_round * self.rounds) + sends)

    @property
    def deliveries(self) -> int:
        return self.count * self.members * self.rounds * (1 if self.chain else self.members * self.batch)


_PIECES = StructType(
    [
        *(StructField(name, StringType()) for name in ("run", "name", "order")),
        *(StructField(name, LongType()) for name in ("members", "rounds", "batch", "chain", "number", "member", "first", "last")),
    ]
)


def events(spark: SparkSession, casts: Iterable[Cast], run: str = "generated") -> DataFrame:
    """The trace of these groups, with the columns of `EVENTS`."""
    return pieces(spark, casts, run).mapInArrow(_play_pieces, EVENTS)


def write(spark: SparkSession, casts: Iterable[Cast], directory: str, run: str = "generated") -> int:
    """The same as files of a trace, which the executors write where they are; says how many rows."""

    def write_pieces(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        folder = Path(directory, run)
        folder.mkdir(parents=True, exist_ok=True)
        for number, batch in enumerate(_in_files(_play_pieces(batches))):
            rows = _write_file(folder / f"{task:05d}-{number:06d}.parquet", batch)
            yield pa.RecordBatch.from_pydict({"rows": [rows]})

    done = pieces(spark, casts, run).mapInArrow(write_pieces, StructType([StructField("rows", LongType())]))
    return int(done.agg(F.sum("rows")).collect()[0][0] or 0)


def pieces(spark: SparkSession, casts: Iterable[Cast], run: str) -> DataFrame:
    """One row for each piece that a task makes; made from a range, so that a million groups cost the driver nothing."""
    parts = []
    for cast in casts:
        about = (run, cast.name, cast.order, cast.members, cast.rounds, 1 if cast.chain else cast.batch, int(cast.chain))
        per_member = -(-cast.rounds // ROUNDS)
        number = F.col("id").cast("bigint")
        part = number % per_member
        named = zip(_PIECES.fieldNames(), about, strict=False)
        parts.append(
            spark.range(cast.count * cast.members * per_member).select(
                *(F.lit(value).cast(_PIECES[name].dataType).alias(name) for name, value in named),
                F.floor(number / (cast.members * per_member)).cast("bigint").alias("number"),
                (F.floor(number / per_member) % cast.members).cast("bigint").alias("member"),
                (part * ROUNDS).alias("first"),
                (F.least((part + 1) * ROUNDS, F.lit(cast.rounds)) - 1).alias("last"),
            )
        )
    whole = table_of(spark, [], _PIECES)
    for each in parts:
        whole = whole.unionAll(each)
    return whole


def _in_files(batches: Iterable[Any]) -> Iterator[list[Any]]:
    """What is written together: small groups share a file."""
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= FILE_ROWS:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _write_file(path: Path, batches: list[Any]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from antiphon.trace.files import MANNER, UNFINISHED, finish
    from antiphon.trace.schema import arrow_schema

    table = pa.Table.from_batches(batches).cast(arrow_schema())
    unfinished = path.with_name(path.name + UNFINISHED)
    pq.write_table(table, unfinished, **MANNER)
    finish(unfinished, path)
    return int(table.num_rows)


def _play_pieces(batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        for piece in batch.to_pylist():
            yield Piece(piece).rows()
