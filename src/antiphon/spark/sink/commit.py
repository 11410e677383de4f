"""What the driver does with a batch whose tasks are done, or have failed: for streams and for jobs alike."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from pyspark.sql.datasource import WriterCommitMessage

from antiphon.errors import AntiphonError
from antiphon.spark.sink import manifest as manifests
from antiphon.spark.sink import publication
from antiphon.spark.sink.choices import SinkChoices
from antiphon.spark.sink.manifest import Manifest
from antiphon.spark.sink.staging import Part, Staging
from antiphon.spark.source.line import Line
from antiphon.store.opening import is_made
from antiphon.store.records import Grant


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What a task says: of which query, which batch, and what it staged."""

    query: str
    batch: int
    part: Part


def publish_batch(line: Line, choices: SinkChoices, query: str, batch: int, messages: Sequence[Staged]) -> Grant | None:
    """Decides the batch and publishes it; None where it has no rows."""
    parts = sorted((message.part for message in messages if message.part.rows), key=lambda part: part.partition)
    staging = Staging(choices.staging, query)
    wanted = Manifest(choices.topic, batch, tuple(parts))
    publication.check(line, choices, wanted)
    # A batch without rows decides nothing. Unless an earlier run of it did: then that counts.
    decided = manifests.decide(line, query, wanted) if parts else manifests.known(line, query)
    if decided is None or decided.batch != batch:
        return None
    grant = publication.publish(line, choices, query, decided, staging)
    staging.clear(batch)
    return grant


def abandon_batch(choices: SinkChoices, messages: Sequence[Staged]) -> None:
    """Removes what was staged in vain. Not what a manifest names: Spark also says this of a batch that was decided and half published,
    when it could not be finished. Whatever cannot be removed now goes with the next batch."""
    with suppress(AntiphonError, OSError):
        decided = _decided(choices, {message.query for message in messages})
        for message in messages:
            manifest = decided.get(message.query)
            kept = manifest.parts if manifest is not None and manifest.batch == message.batch else ()
            if message.part not in kept:
                Staging(choices.staging, message.query).discard(message.batch, [message.part])


def _decided(choices: SinkChoices, queries: set[str]) -> dict[str, Manifest | None]:
    """Nothing, where nobody has made the store: a write that failed must not leave an empty one."""
    if not is_made(choices.store):
        return {}
    with Line(choices.store, choices.timeout_s) as line:
        return {query: manifests.known(line, query) for query in queries}
