"""The tables that every job works on: what the traces say, checked.

| table | one row is | columns |
|---|---|---|
| `events` | one event of a trace | exactly those of `antiphon.trace.schema`; no row twice, each writer's rows 0, 1, 2, … without a hole |
| `writers` | one writer of one run | `WRITERS`: how far its rows go, whether it closed or crashed, its clocks |
| `aside` | one thing that was not taken | `ASIDE`: from which file, which row, why, how many rows (or bytes, where there are no rows) |

`events` ends, for each writer, after its last contiguous index (`writers.contiguous`): what came after a hole is in `aside`, so that a job
never takes for absent what is only missing. Runs are kept apart by `run`, which is part of every key.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, BooleanType, DataType, LongType, StringType, StructField, StructType

from antiphon.spark.stretch import MESSAGES_LIMIT, NEEDED, RANGED, WIDE, WIDE_LIMIT
from antiphon.trace import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NAME = StructType([StructField("seqno", LongType()), StructField("sender", StringType()), StructField("number", LongType())])
_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "int64": LongType(),
    "bool": BooleanType(),
    "list<string>": ArrayType(StringType()),
    "list<int64>": ArrayType(LongType()),
    "list<struct<seqno: int64, sender: string, number: int64>>": ArrayType(_NAME),
}


def _table(*columns: tuple[str, str]) -> StructType:
    return StructType([StructField(column, _TYPES[kind]) for column, kind in columns])


EVENTS = _table(*schema.COLUMNS)
"""What Spark makes of the schema of traces: the same columns in the same order."""

WRITERS = _table(
    *(("run", "string"), ("writer", "string"), ("rows", "int64"), ("contiguous", "int64"), ("closed", "bool"), ("crashed", "bool")),
    *(("first_at", "int64"), ("last_at", "int64"), ("first_wall", "int64"), ("last_wall", "int64"), ("clock_jumps", "int64")),
)
"""`rows` are in `events`; `contiguous` is the index of the last, so one less. `closed`: the last is `close`; `crashed`: there is a `crash`.
A writer that did neither was cut off, lost a file, or still runs. `clock_jumps`: how often the wall clock moved by more than
a second against the monotonic one from one row to the next."""

ASIDE = _table(("path", "string"), ("row", "int64"), ("reason", "string"), ("amount", "int64"))
"""`row`: the first that was set aside: by its index, or, where rows are unsound, by its place in the file; null when it is the whole file.
`amount` counts rows, or bytes of a file that does not say how many rows it has."""


@dataclass(frozen=True)
class Tables:
    events: DataFrame
    writers: DataFrame
    aside: DataFrame

    @classmethod
    def of(cls, spark: SparkSession, path: str) -> Tables:
        """Of a lake where there is one, else of the traces in that directory."""
        from antiphon.spark.lake import Lake

        return cls.of_lake(spark, path) if Lake(spark, path).commits() else cls.of_traces(spark, path)

    @classmethod
    def of_traces(cls, spark: SparkSession, directory: str) -> Tables:
        """Straight from the files of a trace: each is looked at once by the executors, and nothing is written."""
        from antiphon.spark.reading import read_traces

        return read_traces(spark, directory)

    @classmethod
    def of_lake(cls, spark: SparkSession, lake: str) -> Tables:
        """What `ingest` has written there, up to its last commit."""
        from antiphon.spark.lake import Lake

        return Lake(spark, lake).tables()

    @classmethod
    def of_events(cls, events: DataFrame) -> Tables:
        """Of rows that are known to be whole: generated ones, or those of a test. Who wrote them is counted, nothing is checked."""
        spark = events.sparkSession
        return cls(events.select(*EVENTS.fieldNames()), events.transform(writers_of), table_of(spark, [], ASIDE))

    @classmethod
    def of_rows(cls, spark: SparkSession, rows: Sequence[Sequence[object]]) -> Tables:
        """`of_events` of rows in the order of the schema's columns."""
        return cls.of_events(table_of(spark, rows, EVENTS))


def writers_of(events: DataFrame) -> DataFrame:
    """Who wrote these rows, of which none is missing or twice.

    run  writer  index  kind     →     run  writer  rows  contiguous  closed  crashed  …
    r    ana     0      open           r    ana     2     1           true    false
    r    ana     1      close          r    ben     1     0           false   false
    r    ben     0      open
    """
    return (
        events.groupBy("run", "writer")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.max("index").alias("contiguous"),
            _any(F.col("kind") == "close").alias("closed"),
            _any(F.col("kind") == "crash").alias("crashed"),
            F.min("at").alias("first_at"),
            F.max("at").alias("last_at"),
            F.min("wall").alias("first_wall"),
            F.max("wall").alias("last_wall"),
            F.lit(0).cast("bigint").alias("clock_jumps"),
        )
        .select(*WRITERS.fieldNames())
    )


def table_of(spark: SparkSession, rows: Iterable[Sequence[object]], columns: StructType) -> DataFrame:
    """A small table from the driver. It goes as Arrow, so that no Python process has to be asked for its rows later."""
    import pyarrow as pa

    arrow = to_arrow_schema(columns)
    values = list(zip(*rows, strict=True)) or [()] * len(arrow)
    arrays = [_array(column, field.type) for column, field in zip(values, arrow, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=arrow), schema=columns)


def _array(column: Sequence[Any], kind: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        names = [kind.value_type.field(i).name for i in range(kind.value_type.num_fields)]
        column = [None if value is None else [dict(zip(names, each, strict=True)) for each in value] for value in column]
    return pa.array(column, kind)


def sound() -> Column:
    """Rows that say who, what and when, and name no range that ends before it begins or cannot be. `stretch` has the same for Arrow."""
    present = reduce(and_, (F.col(name).isNotNull() for name in NEEDED))
    first, last, limit = F.col("first"), F.col("last"), F.when(F.col("kind").isin(*WIDE), WIDE_LIMIT).otherwise(MESSAGES_LIMIT)
    ordered = ~F.col("kind").isin(*RANGED) | ((first >= 0) & (last >= first) & (F.try_subtract(last, first) < limit))
    return F.coalesce(present & (F.col("index") >= 0) & ordered, F.lit(False))


def _any(condition: Column) -> Column:
    return F.coalesce(F.max(condition), F.lit(False))
