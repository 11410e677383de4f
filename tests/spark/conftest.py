"""One Spark session for all tests of a worker process: starting one costs more than most tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install 'antiphon[spark]'")

from pyspark.sql import SparkSession

from antiphon.spark.java import find_java
from antiphon.spark.session import open_session
from antiphon.spark.source.line import Line
from antiphon.trace.row import Row

NO_JAVA = "Spark needs Java 17 or newer: install it, or set JAVA_HOME"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two threads and few partitions: tables of ten rows need no more."""
    if find_java() is None:
        pytest.skip(NO_JAVA)
    settings = {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}
    with open_session(master="local[2]", name="antiphon tests", settings=settings) as session:
        yield session


@pytest.fixture
def write_trace(tmp_path: Path) -> Callable[..., Path]:
    """Writes rows as a file of a trace, under tmp_path/trace unless another directory is given, as a writer would leave it."""
    import pyarrow.parquet as pq

    from antiphon.trace.files import table_of

    def write(name: str, rows: Sequence[Row], *, directory: Path | None = None, metadata: dict[bytes, bytes] | None = None) -> Path:
        table = table_of(rows)
        path = (directory or tmp_path / "trace") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table if metadata is None else table.replace_schema_metadata(metadata), path, write_page_checksum=True)
        return path

    return write


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Where a store of the test's own is."""
    return f"sqlite:{tmp_path}/field.db"


@pytest.fixture
def line(url: str) -> Iterator[Line]:
    """A way to that store for whoever does not await."""
    with Line(url) as line:
        yield line
