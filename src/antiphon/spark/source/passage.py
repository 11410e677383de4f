"""The values of a span, in order, with every number that is missing accounted for.

Whatever is read is a value or part of a gap: `collected` because nobody who was subscribed needed it any more, or `removed` one by one. In
a mutable topic a missing number is a value that a newer one of its key has replaced, and nothing to be told.

Keeps two chunks of up to `size` values: one that is being used, one that is being read meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from time import monotonic, sleep
from typing import NamedTuple

from antiphon.errors import InvalidOption, StoreUnreachable
from antiphon.spark.source.choices import Choices
from antiphon.spark.source.line import Line
from antiphon.spark.source.span import Span
from antiphon.store.records import Chunk, Gap, Value

_PAUSE_S = 0.05


class Piece(NamedTuple):
    """Values, and the gaps before, between and after them."""

    values: Sequence[Value]
    gaps: Sequence[Gap]


def passage(choices: Choices, span: Span, size: int) -> Iterator[Piece]:
    """Everything there is of the span. With `gaps=fail` a gap raises InvalidOption."""
    with Line(choices.store, choices.timeout_s, reading=True) as line:
        is_mutable = line.ask(lambda: line.backend.info(choices.topic)).options.mutable
        for piece in _pieces(line, choices, span, size):
            if is_mutable:
                yield Piece(piece.values, ())
                continue
            if piece.gaps and choices.gaps == "fail":
                raise _lost(choices, piece.gaps[0])
            yield piece


def _pieces(line: Line, choices: Choices, span: Span, size: int) -> Iterator[Piece]:
    reader = line.ask(lambda: line.backend.reader(choices.topic, span.after))
    try:
        cursor, is_missing = span.after, False
        until = monotonic() + choices.timeout_s
        coming = line.begin(lambda: reader.take(min(size, span.last - span.after), 0.0))
        while True:
            chunk = line.outcome(coming)
            newest = chunk.values[-1].seq if chunk.values else cursor
            if newest < span.last and chunk.values:
                left = span.last - newest
                coming = line.begin(lambda left=left: reader.take(min(size, left), 0.0))  # type: ignore[misc]
                yield _accounted(chunk, cursor, newest)
                cursor, is_missing = newest, False
                continue
            if newest >= span.last or (is_missing and chunk.last >= span.last):
                yield _accounted(chunk, cursor, span.last)
                return
            # Nothing more was found. Either the rest is gone, or it was published just after this was looked for: then it is there the
            # next time. Or the store, a part of it that lags behind, does not have it yet.
            if chunk.last < span.last and monotonic() > until:
                raise StoreUnreachable(line.reach.url, f"it had {span.last:,} values of {choices.topic!r} and now says {chunk.last:,}")
            if chunk.last < span.last:
                sleep(_PAUSE_S)
            is_missing = chunk.last >= span.last
            left = span.last - cursor
            coming = line.begin(lambda left=left: reader.take(min(size, left), 0.0))  # type: ignore[misc]
    finally:
        with suppress(StoreUnreachable):
            line.run(reader.close())


def _accounted(chunk: Chunk, cursor: int, last: int) -> Piece:
    """The values of the chunk among the numbers after `cursor` up to `last`, and what is missing of these."""
    values = chunk.values
    if values and values[-1].seq > last:
        values = [value for value in values if value.seq <= last]
    if len(values) == last - cursor:
        return Piece(values, ())
    gaps: list[Gap] = []
    for value in values:
        gaps += _gaps(cursor + 1, value.seq - 1, chunk.floor)
        cursor = value.seq
    return Piece(values, [*gaps, *_gaps(cursor + 1, last, chunk.floor)])


def _gaps(first: int, last: int, floor: int) -> Iterator[Gap]:
    if first <= min(last, floor):
        yield Gap(first, min(last, floor), "collected")
    if max(first, floor + 1) <= last:
        yield Gap(max(first, floor + 1), last, "removed")


def _lost(choices: Choices, gap: Gap) -> InvalidOption:
    return InvalidOption(
        "gaps",
        "fail",
        f"the values {gap.first} … {gap.last} of {choices.topic!r} were {gap.why} and cannot be read any more: read on with gaps=report, "
        "or begin after them (start=…, for a stream with a new checkpoint); a stream with a subscriber=… keeps what it has not read",
    )
