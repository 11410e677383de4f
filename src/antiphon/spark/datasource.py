"""`format("antiphon")`: what Spark is told of the source and the sink.

    from antiphon.spark.datasource import AntiphonSource

    spark.dataSource.register(AntiphonSource)
    crash = spark.readStream.format("antiphon").options(store="sqlite:field.db", topic="crash", subscriber="spark").load()
    crash.select("data").writeStream.format("antiphon").options(store="sqlite:field.db", topic="copy").start(checkpointLocation=…)

Options of reading are in `source/choices.py`, of writing in `sink/choices.py`. Made in the driver's Python: paths are made absolute here,
so that they mean the same on every executor of this machine.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, DataSourceStreamArrowWriter, DataSourceStreamReader
from pyspark.sql.types import StructType

from antiphon.spark.sink.batch import TopicWriter
from antiphon.spark.sink.choices import SinkChoices
from antiphon.spark.sink.stream import TopicSink
from antiphon.spark.source import rows
from antiphon.spark.source.batch import TopicReader
from antiphon.spark.source.choices import Choices
from antiphon.spark.source.stream import TopicStream


class AntiphonSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "antiphon"

    def schema(self) -> str:
        return rows.columns(self._choices())

    def reader(self, schema: StructType) -> DataSourceReader:
        return TopicReader(self._choices())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return TopicStream(self._choices())

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return TopicWriter(SinkChoices.of(self.options, schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return TopicSink(SinkChoices.of(self.options, schema, overwrite))

    def _choices(self) -> Choices:
        return Choices.of(self.options)
