"""How the protocols scale: a grid of simulations, run by the executors.

`sweep` gives every cell of a grid (`spark.grid`) to the executors and keeps the results as Parquet files in a directory, one row per cell
with the columns of `grid.Result`. They are those that `grid.simulate` gives without Spark, `cpu_s` apart.

- Cells go out in waves. A wave is a job of its own whose files appear when it is done, so whoever is killed in the middle loses at most
  the waves under way, about `WAVE_S` seconds of work; the same call goes on with the cells that have no result.
- Two waves are under way at a time: the tail of one, when it has fewer tasks than there are cores, is filled by the head of the next. Heavy
  cells go first, so that none is left for the end. `Sweep.busy` says which share of the cores' time went into simulations.
- The driver keeps the cells, at most `grid.CELLS_LIMIT`, and nothing of the results.

The directory must be one that all executors can write. It is the sweep's own: give another sweep another, or the same to go on or to widen
the grid. After a change of the protocols, too, results of before and after do not belong into one directory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from antiphon.sim.conversation import Conversation
from antiphon.spark.grid import Cell, Result, simulate
from antiphon.spark.inspection import literally

if TYPE_CHECKING:
    import pyarrow

WAVE_S = 5.0
"""How long a wave should take. The first are smaller: nobody knows yet what a cell costs here."""
WAVES_AT_ONCE = 2
TASKS_PER_CORE = 4
"""Of a wave, so that its tasks end at different times and a slow one holds nobody up."""
_SQL_TYPES = {str: "string", int: "bigint", float: "double", bool: "boolean"}

Progress: TypeAlias = Callable[[int, int], None]
"""Told (cells that have a result, cells in all), after every wave."""

CELL = tuple(field.name for field in msgspec.structs.fields(Cell))
RESULTS = ", ".join(f"{field.name} {_SQL_TYPES[field.type]}" for field in msgspec.structs.fields(Result))


@dataclass(frozen=True)
class Sweep:
    """`resumed` results were there before; `ran` were made now, in `took_s`, of which the simulations used `cpu_s` of the `cores`."""

    results: DataFrame
    resumed: int
    ran: int
    took_s: float
    cpu_s: float
    cores: int

    @property
    def busy(self) -> float:
        """The share of the cores' time that went into simulations."""
        return self.cpu_s / (self.took_s * self.cores) if self.took_s else 0.0


def sweep(
    spark: SparkSession,
    cells: Sequence[Cell],
    directory: str,
    *,
    conversation: Conversation | None = None,
    progress: Progress | None = None,
) -> Sweep:
    """Simulates the cells that have no result in `directory` yet, and gives the results of all of them."""
    wanted = spark.createDataFrame([msgspec.structs.astuple(cell) for cell in cells], ", ".join(RESULTS.split(", ")[: len(CELL)]))
    done = {Cell(**row.asDict()) for row in results_in(spark, directory).select(*CELL).join(wanted, list(CELL), "left_semi").collect()}
    ahead = sorted((cell for cell in cells if cell not in done), key=lambda cell: -cell.weight)
    waves = _Waves(spark, directory, conversation, ahead)
    started = time.monotonic()
    for finished in waves.run():
        if progress is not None:
            progress(len(done) + finished, len(cells))
    took_s = time.monotonic() - started if ahead else 0.0
    results = results_in(spark, directory).join(wanted, list(CELL), "left_semi").select(*_columns())
    return Sweep(results, len(done), len(ahead), took_s, waves.cpu_s, waves.cores)


def results_in(spark: SparkSession, directory: str) -> DataFrame:
    """All results in a directory, each cell's once; none where there is nothing yet."""
    try:
        reader = spark.read.schema(RESULTS).option("recursiveFileLookup", "true").option("pathGlobFilter", "*.parquet")
        found = reader.parquet(literally(directory))
        _ = found.schema  # through Spark Connect nothing is looked for before somebody asks
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return spark.createDataFrame([], RESULTS)
    # A wave that was killed while its files were put in their place leaves some: they are whole, and their cells count as done.
    return found.dropDuplicates(list(CELL))


def by_parameters(results: DataFrame) -> DataFrame:
    """One row for each combination of parameters: the means over its seeds, and the worst of what must not happen at all. Where nothing was
    delivered there are no `frames_per_delivery`.

    order members loss seed hold_mean_s          order members loss seeds hold_mean_s …
    fifo        4  0.0    1        0.02     →    fifo        4  0.0     2        0.03
    fifo        4  0.0    2        0.04
    """
    parameters = [column for column in CELL if column != "seed"]
    means = ("held_share", "hold_mean_s", "hold_p50_s", "hold_p99_s", "end_to_end_mean_s", "spoken_rate", "cpu_s")
    return (
        results.groupBy(*parameters)
        .agg(
            F.count(F.lit(1)).alias("seeds"),
            *(F.avg(column).alias(column) for column in means),
            F.max("hold_max_s").alias("hold_max_s"),
            F.try_divide(F.sum("frames"), F.sum("deliveries")).alias("frames_per_delivery"),
            F.sum("deliveries").alias("deliveries"),
            F.sum("broken").alias("broken"),
            F.count(F.when(~F.col("settled"), 1)).alias("unsettled"),
            F.count(F.when(F.col("error") != "", 1)).alias("errors"),
        )
        .orderBy(*parameters)
    )


class _Waves:
    """Sends the cells out in waves of about `WAVE_S`, `WAVES_AT_ONCE` at a time."""

    def __init__(self, spark: SparkSession, directory: str, conversation: Conversation | None, ahead: Sequence[Cell]) -> None:
        self.cores = _cores(spark)
        self.cpu_s = 0.0
        self._spark, self._directory, self._conversation = spark, directory, conversation
        self._ahead = list(reversed(ahead))
        self._weight = 0.0

    def run(self) -> Iterator[int]:
        """Says after each wave how many cells are done."""
        finished = 0
        pool = ThreadPoolExecutor(WAVES_AT_ONCE, thread_name_prefix="sweep")
        under_way: dict[Future[float], list[Cell]] = {}
        try:
            while self._ahead or under_way:
                while self._ahead and len(under_way) < WAVES_AT_ONCE:
                    wave = self._next()
                    under_way[pool.submit(self._simulate, wave)] = wave
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    wave = under_way.pop(future)
                    self.cpu_s += future.result()
                    self._weight += sum(cell.weight for cell in wave)
                    finished += len(wave)
                yield finished
        finally:
            # Whoever is interrupted does not wait for the waves under way: they end with the session.
            pool.shutdown(wait=not under_way, cancel_futures=True)

    def _next(self) -> list[Cell]:
        """The next cells: so many that they keep every core busy for `WAVE_S`, by what the ones before have cost; at first one per task."""
        tasks = self.cores * TASKS_PER_CORE
        budget = WAVE_S * self.cores * self._weight / self.cpu_s if self.cpu_s else 0.0
        wave: list[Cell] = []
        weight = 0.0
        while self._ahead and (len(wave) < tasks or weight < budget):
            wave.append(self._ahead.pop())
            weight += wave[-1].weight
        return wave

    def _simulate(self, wave: list[Cell]) -> float:
        """Runs a wave to its end, its results written; returns the processor time of its simulations."""
        work = partial(_run, msgspec.json.encode(wave), msgspec.json.encode(self._conversation))
        name = blake2b(msgspec.json.encode(wave[0]), digest_size=8).hexdigest()
        path = f"{self._directory}/wave={name}"
        # Rows of a table would be dealt out by its size; a range has as many partitions as it is told.
        places = self._spark.range(0, len(wave), 1, min(len(wave), self.cores * TASKS_PER_CORE))
        places.mapInArrow(work, RESULTS).write.mode("append").parquet(path)
        spent = self._spark.read.schema(RESULTS).parquet(literally(path)).agg(F.sum("cpu_s")).first()
        return float(spent[0] or 0.0) if spent else 0.0


def _run(wave: bytes, told: bytes, places: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """On an executor: the cells at these places of the wave, a batch of one row each, so that nothing gathers."""
    import pyarrow as pa

    cells = msgspec.json.decode(wave, type=list[Cell])
    conversation = msgspec.json.decode(told, type=Conversation | None)
    for batch in places:
        for place in batch.column(0).to_pylist():
            result = simulate(cells[place], conversation)
            yield pa.RecordBatch.from_pylist([msgspec.structs.asdict(result)], schema=_arrow_schema())


def _arrow_schema() -> pyarrow.Schema:
    import pyarrow as pa

    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    return pa.schema([(field.name, types[field.type]) for field in msgspec.structs.fields(Result)])


def _cores(spark: SparkSession) -> int:
    """How many tasks run at a time; asked so that it works through Spark Connect as well: a range has that many partitions by itself."""
    return max(1, spark.range(1 << 16).select(F.spark_partition_id().alias("place")).distinct().count())


def _columns() -> list[str]:
    return [field.name for field in msgspec.structs.fields(Result)]
