"""What somebody says who writes rows of Spark into a topic.

| option | means |
|---|---|
| `store`, `topic` | where to; the topic is made with the first value, if it is not there |
| `staging` | a directory (or an address that pyarrow understands: `s3://…`, `hdfs://…`) that driver and executors see, for the files of a \
              batch; beside the file of a `sqlite:` store if it is not said |
| `shared` | `true`: others may publish to the topic too; said where the topic is new |
| `takeover` | `true`: takes the topic from another publisher, who is fenced |
| `job` | batch: a name for this write; a write of the same name writes nothing that is there already |
| `timeout` | seconds that a call to the store may take |

The columns are `data` (binary or string) and, if it is there, `key` (string).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from uuid import uuid4

from msgspec import Struct
from pyspark.sql.types import BinaryType, StringType, StructType

from antiphon.errors import InvalidOption
from antiphon.spark.source.choices import HISTORIES, SHARED, known_options, seconds, store_of, topic_of
from antiphon.store.records import TopicOptions
from antiphon.store.sqlite.address import parse

_KNOWN = SHARED | {"staging", "shared", "takeover", "job"}
_JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class SinkChoices(Struct, frozen=True, kw_only=True):
    store: str
    topic: str
    staging: str
    timeout_s: float
    shared: bool | None
    takeover: bool
    job: str
    is_named: bool
    """Whether the job's name was given, so that somebody may come again with it."""

    @property
    def topic_options(self) -> TopicOptions | None:
        return None if self.shared is None else TopicOptions(shared=self.shared)

    @classmethod
    def of(cls, options: Mapping[str, str], schema: StructType, overwrite: bool) -> SinkChoices:
        said = known_options(options, _KNOWN)
        if overwrite:
            raise InvalidOption(
                "mode", "overwrite", "a topic is only appended to: mode('append'), of a stream outputMode('append') or 'update'"
            )
        _check_columns(schema)
        topic = topic_of(said)
        if topic.startswith(HISTORIES):
            raise InvalidOption("topic", topic, "a group's history is written by its members alone: choose another topic")
        job = said.get("job")
        if job is not None and _JOB.fullmatch(job) is None:
            raise InvalidOption("job", job, "a name for a write has 1 to 64 letters, digits, dots, dashes and underscores")
        store = store_of(said)
        return cls(
            store=store,
            topic=topic,
            staging=said.get("staging") or _beside(store),
            timeout_s=seconds("timeout", said.get("timeout", "60")),
            shared=_truth("shared", said["shared"]) if "shared" in said else None,
            takeover=_truth("takeover", said.get("takeover", "false")),
            job=job or uuid4().hex,
            is_named=job is not None,
        )


def _check_columns(schema: StructType) -> None:
    types = {field.name: field.dataType for field in schema.fields}
    if "data" not in types or not isinstance(types["data"], BinaryType | StringType):
        raise InvalidOption("data", types.get("data", "missing"), "the rows need a column data, binary or string: select(… .alias('data'))")
    if not isinstance(types.get("key", StringType()), StringType):
        raise InvalidOption("key", types["key"], "the column key is a string")
    if strange := sorted(types.keys() - {"data", "key"}):
        raise InvalidOption(
            "columns", ", ".join(strange), "a value has data and a key alone: select these, or put more into data (to_json)"
        )


def _beside(store: str) -> str:
    if store.startswith("sqlite:"):
        return parse(store).path + "-staging"
    raise InvalidOption(
        "staging", "", "say in which directory, seen by the driver and all executors, rows wait until their batch is complete"
    )


def _truth(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidOption(name, text, "say true or false")
    return text.lower() == "true"
