"""Figures as people read them, and tables of rows that came from Spark. What is shown is bounded; `--json` gives more of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from rich.table import Table

from antiphon.errors import UsageError
from antiphon.spark.report.figures import cell, duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from antiphon.spark.tables import Tables

Traces: TypeAlias = Annotated[str, typer.Argument(metavar="DIR", help="A directory of traces, or a lake that ingest has made.")]

ROWS_LIMIT = 1_000
"""Rows of one table that a command takes out of Spark; what is left out is said."""
ROWS_SHOWN = 20

Row: TypeAlias = dict[str, Any]


def rows_of(table: DataFrame, limit: int = ROWS_LIMIT) -> tuple[list[Row], bool]:
    """The first rows as plain values, and whether there are more."""
    found = [row.asDict(recursive=True) for row in table.limit(limit + 1).collect()]
    return found[:limit], len(found) > limit


def require_rows(tables: Tables, directory: str) -> None:
    """Raises UsageError when there is nothing that a job could look at, with what was found instead."""
    if not tables.writers.isEmpty():
        return
    reasons = tables.aside.groupBy("reason").count().orderBy("reason").limit(ROWS_SHOWN).collect()
    found = ", ".join(f"{row['count']:,} × {row.reason}" for row in reasons)
    raise UsageError(f"{directory} has no trace that could be used ({found or 'there are no files'}): was it given as --trace?")


def table(title: str, columns: Mapping[str, str], rows: Sequence[Row]) -> Table:
    """The columns (key in a row → heading) of at most `ROWS_SHOWN` rows. Keys that end in `_ns` are times. A run, group or multicast that
    is the same in all rows is said once, above: terminals are narrow."""
    same = [key for key in ("run", "group", "multicast") if key in columns and len(rows) > 1 and len({row.get(key) for row in rows}) == 1]
    columns = {key: heading for key, heading in columns.items() if key not in same}
    about = ", ".join(f"{key} {cell(rows[0][key])}" for key in same)
    shown = Table(title=f"{title} ({about})" if about else title, title_justify="left", title_style="bold")
    for key, heading in columns.items():
        number = any(isinstance(row.get(key), int | float) for row in rows)
        shown.add_column(heading, justify="right" if number else "left")
    for row in rows[:ROWS_SHOWN]:
        shown.add_row(*(duration(row.get(key)) if key.endswith("_ns") else cell(row.get(key)) for key in columns))
    if len(rows) > ROWS_SHOWN:
        shown.caption = f"… and {len(rows) - ROWS_SHOWN:,} more; --json shows them"
    return shown
