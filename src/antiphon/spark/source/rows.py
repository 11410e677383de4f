"""The rows of a span, as Arrow batches: values, or a group's messages, as the topic's name says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from antiphon.spark.source import message_rows, value_rows
from antiphon.spark.source.choices import Choices
from antiphon.spark.source.passage import passage
from antiphon.spark.source.span import Span

if TYPE_CHECKING:
    import pyarrow

_VALUES_OF_GROUP = 256
"""Values that are read at once where each may hold many messages."""


def columns(choices: Choices) -> str:
    """The schema, as Spark writes it."""
    kind = message_rows.COLUMNS if choices.of_group else value_rows.COLUMNS
    return kind + (value_rows.GAP_COLUMNS if choices.gaps == "report" else "")


def of_span(choices: Choices, span: Span) -> Iterator[pyarrow.RecordBatch]:
    with_gaps = choices.gaps == "report"
    if choices.of_group:
        pieces = passage(choices, span, min(choices.batch_size, _VALUES_OF_GROUP))
        return message_rows.batches(pieces, with_gaps, choices.batch_size)
    return value_rows.batches(passage(choices, span, choices.batch_size), with_gaps)
