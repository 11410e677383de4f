"""Which files are a batch: decided once, by whoever writes it first.

One record of the store per query, `spark/QUERY`: the manifest of its newest batch. It changes by compare-and-set, so two drivers cannot
decide the same batch differently; and it takes the place of the one before, so it does not grow with the batches.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from antiphon.errors import Conflict, Fenced, TooLarge, UsageError
from antiphon.spark.sink.staging import Part
from antiphon.spark.source.line import Line

PARTS_LIMIT = 10_000
"""Tasks of one batch that have rows: more would not fit into a record."""
_ATTEMPTS = 8


class Manifest(Struct, array_like=True, frozen=True):
    topic: str
    batch: int
    parts: tuple[Part, ...]
    """Those with rows, by partition."""

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)


def decide(line: Line, query: str, wanted: Manifest) -> Manifest:
    """The manifest of this batch: the one that is there, else this one, which is durable when this returns."""
    if len(wanted.parts) > PARTS_LIMIT:
        raise TooLarge(len(wanted.parts), PARTS_LIMIT, "a batch's number of tasks", "coalesce the rows before they are written")
    for _ in range(_ATTEMPTS):
        found, revision = _look(line, query)
        if found is not None and found.batch == wanted.batch:
            return found
        if found is not None and found.batch > wanted.batch:
            raise Fenced(f"batch {wanted.batch} of the query {query}", f"batch {found.batch} is decided: another driver runs this query")
        try:
            line.ask(lambda revision=revision: line.backend.put(_key(query), msgspec.msgpack.encode(wanted), revision))  # type: ignore[misc]
        except Conflict:
            continue  # another driver was faster, or this one itself, and the acknowledgement was lost
        return wanted
    raise Conflict(f"the manifest of the query {query}")


def known(line: Line, query: str) -> Manifest | None:
    return _look(line, query)[0]


def forget(line: Line, query: str) -> None:
    """Of a query that nobody can repeat."""
    found, revision = _look(line, query)
    if found is not None:
        line.ask(lambda: line.backend.remove(_key(query), revision))


def _look(line: Line, query: str) -> tuple[Manifest | None, int]:
    record = line.ask(lambda: line.backend.get(_key(query)))
    if record is None:
        return None, 0
    try:
        return msgspec.msgpack.decode(record.data, type=Manifest), record.revision
    except msgspec.DecodeError as error:
        raise UsageError(
            f"the record {_key(query)!r} of {line.reach.url} is no manifest ({error}): a newer Antiphon may have written it"
        ) from None


def _key(query: str) -> str:
    return f"spark/{query}"
