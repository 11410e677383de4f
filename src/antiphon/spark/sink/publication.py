"""The rows of a manifest go into the topic, each once, in the order of (partition, row).

The publisher is the query's alone, and the own number of a row is (batch, index): batches in the upper bits, the row's place in its batch,
from 1, in the lower 32. A store does not write what is not above a publisher's newest number, so whatever is repeated, by whomever, is
written once; and the newest number says where to go on. Registering fences a driver that was taken for dead.
"""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.errors import TooLarge, UnknownTopic
from antiphon.spark.sink.choices import SinkChoices
from antiphon.spark.sink.manifest import Manifest
from antiphon.spark.sink.staging import Staging
from antiphon.spark.source.line import Line
from antiphon.store.records import Entry, Grant, TopicOptions, check_keys

INDEX_BITS = 32
ROWS_LIMIT = (1 << INDEX_BITS) - 1
BATCH_LIMIT = 1 << (62 - INDEX_BITS)


def number_of(batch: int, index: int) -> int:
    """The own number of a row; `index` begins with 1."""
    return batch << INDEX_BITS | index


def publisher_of(query: str) -> str:
    return f"spark/{query}"


def check(line: Line, choices: SinkChoices, manifest: Manifest) -> None:
    """Refuses what could never be published, before it is decided: afterwards the query could not go on."""
    largest, limit = max((part.largest for part in manifest.parts), default=0), line.backend.value_bytes
    if largest > limit:
        raise TooLarge(largest, limit, "a value in this store", "split it, or keep it elsewhere and publish where it is")
    if manifest.rows > ROWS_LIMIT or manifest.batch >= BATCH_LIMIT:
        raise TooLarge(manifest.rows, ROWS_LIMIT, "a micro-batch's number of rows", "limit what is read per trigger")
    rows = manifest.rows
    if rows:
        keyed, options = sum(part.keyed for part in manifest.parts), _options_of(line, choices, manifest.topic)
        check_keys(manifest.topic, options, keyed == rows if options.mutable else keyed > 0)


def _options_of(line: Line, choices: SinkChoices, topic: str) -> TopicOptions:
    """What the topic is, or will be once this query has registered."""
    try:
        return line.ask(lambda: line.backend.info(topic)).options
    except UnknownTopic:
        return choices.topic_options or TopicOptions()


def publish(line: Line, choices: SinkChoices, query: str, manifest: Manifest, staging: Staging) -> Grant:
    """Returns when every row is in the topic, synced where the store syncs."""
    backend = line.backend
    register = backend.register
    grant = line.ask(lambda: register(manifest.topic, publisher_of(query), options=choices.topic_options, takeover=choices.takeover))
    written = min(max(0, grant.number - number_of(manifest.batch, 0)), manifest.rows)
    for entries in _portions(_rows(staging, manifest, written), backend.batch_values, backend.batch_bytes):
        first = number_of(manifest.batch, written + 1)
        line.ask(lambda first=first, entries=entries: backend.publish(grant, first, entries))  # type: ignore[misc]
        written += len(entries)
    return grant


def _rows(staging: Staging, manifest: Manifest, skip: int) -> Iterator[list[Entry]]:
    for part in manifest.parts:
        if skip < part.rows:
            yield from staging.entries(manifest.batch, part, skip)
        skip = max(0, skip - part.rows)


def _portions(source: Iterator[list[Entry]], most_values: int, most_bytes: int) -> Iterator[list[Entry]]:
    """What one publish may carry at a time."""
    portion: list[Entry] = []
    size = 0
    for entries in source:
        for entry in entries:
            weight = len(entry.data) + len(entry.key)
            if portion and (len(portion) >= most_values or size + weight > most_bytes):
                yield portion
                portion, size = [], 0
            portion.append(entry)
            size += weight
    if portion:
        yield portion
