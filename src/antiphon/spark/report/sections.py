"""The pieces that a page is made of: a section, a table, a picture, a table to unfold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from antiphon.spark.report.figures import cell, duration, several
from antiphon.spark.report.findings import Row

SHOWN = 12
"""Rows of a table that one sees without asking."""
_GOOD = ("kept",)


def columns(text: str) -> dict[str, str]:
    """`size: members, depth` is {"size": "members", "depth": "depth"}: the columns of a table by the keys of its rows."""
    pairs = (word.partition(": ") for word in text.split(", "))
    return {key: heading or key for key, _, heading in pairs}


def section(number: int, heading: str, body: str) -> str:
    return f"<section><h2><small>{number}</small>{escape(heading)}</h2>{body}</section>"


def table(columns: Mapping[str, str], rows: Sequence[Row], mark: str | None = None, limit: int = SHOWN) -> str:
    """The columns (key in a row → heading) of the first rows, and the others to unfold. Keys that end in `_ns` are times. The column `mark`
    is good or bad news. A column in which all rows say the same long name, such as the run, is left out and said once; that all are of one
    world goes without saying."""
    columns, same = _without_repetition(columns, rows)
    numbers = {key: any(_is_number(row.get(key)) for row in rows) for key in columns}
    head = "".join(f'<th class="{"number" if numbers[key] else ""}">{escape(name)}</th>' for key, name in columns.items())

    def line(row: Row) -> str:
        return "<tr>" + "".join(_data(key, row.get(key), numbers[key], mark) for key in columns) + "</tr>"

    shown, rest = rows[:limit], rows[limit:]
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(map(line, shown))}</tbody></table>"
    note = f'<p class="note">{escape(same)}</p>' if same else ""
    if rest:
        full = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(map(line, rest))}</tbody></table>"
        body += f"<details><summary>{several(len(rest), 'more row', 'more rows')}</summary>{full}</details>"
    return f'<div class="card scroll">{body}{note}</div>'


def more(heading: str, columns: Mapping[str, str], rows: Sequence[Row], limit: int = SHOWN) -> str:
    """A table that is there for who wants it."""
    if not rows:
        return ""
    return f"<details><summary>{escape(heading)}</summary>{table(columns, rows, limit=limit)}</details>"


def picture(svg: str) -> str:
    return f'<figure class="card scroll">{svg}</figure>' if svg else ""


def _data(key: str, value: object, number: bool, mark: str | None) -> str:
    text = duration(value) if key.endswith("_ns") and isinstance(value, int | float) else cell(value)
    classes = ["number"] if number else []
    if key == mark:
        classes.append("good" if value in _GOOD else "bad")
    # Ids are shown by their names; the whole id is there for who points at it.
    hint = f' title="{escape(str(value), quote=True)}"' if isinstance(value, str) and text != value else ""
    return f'<td class="{" ".join(classes)}"{hint}>{escape(text)}</td>'


def _is_number(value: object) -> bool:
    """Figures stand under each other by their last digit, those with a unit or a share too; ids and names begin with a letter."""
    return isinstance(value, int | float) or (isinstance(value, str) and value.endswith(("%", "%)")))


def _without_repetition(columns: Mapping[str, str], rows: Sequence[Row]) -> tuple[dict[str, str], str]:
    said: list[str] = []
    kept = dict(columns)
    if len({row.get("world") for row in rows}) < 2:
        kept.pop("world", None)
    for key in ("run", "group"):
        values = {row.get(key) for row in rows}
        if key in kept and len(values) == 1 and len(rows) > 0:
            said.append(f"{kept.pop(key)}: {cell(values.pop())}")
    return (kept, ", ".join(said)) if kept else (dict(columns), "")
