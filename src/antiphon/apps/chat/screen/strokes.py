"""The pieces that a line of the tree is drawn with: its time, its branches, its marks."""

from __future__ import annotations

from datetime import UTC, datetime

from antiphon.apps.chat.entries import Line

_LEVEL = 3
_LEVELS = 8
"""Answers deeper than this are not indented further."""


def indent(line: Line) -> int:
    """Cells that the branches of a line take."""
    return _LEVEL * min(line.depth, _LEVELS)


def marks(line: Line) -> str:
    """What a reader must know of a line beside its text."""
    marks = ""
    if line.orphan:
        marks = "answers a line that is lost · " if line.lost else "answers a line that is not here · "
    return marks + ("came late · " if line.late else "")


def folded(line: Line) -> str:
    if not line.folded or line.thread is not line:
        return ""
    hidden_news = line.news - line.unread
    news = f", {hidden_news:,} new" if hidden_news else ""
    return f"  ▸ {line.size - 1:,} more{news}"


def guides(line: Line, row: int) -> str:
    """The branches left of a row of a line."""
    if line.thread is line:
        return "" if row == 0 else ("│ " if line.children else "  ")
    levels: list[str] = []
    each, lowest = line, True
    while each.parent is not None and len(levels) < _LEVELS:
        last = each.parent.children[-1] is each
        if lowest and row == 0:
            levels.append("└─ " if last else "├─ ")
        else:
            levels.append("   " if last else "│  ")
        each, lowest = each.parent, False
    if each.parent is not None:
        levels[-1] = "⋯  "
    tail = "" if row == 0 else ("│ " if line.children else "  ")
    return "".join(reversed(levels)) + tail


def clock(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).astimezone().strftime("%H:%M")
    except (OverflowError, ValueError, OSError):
        return "--:--"  # somebody's clock is not of this world
