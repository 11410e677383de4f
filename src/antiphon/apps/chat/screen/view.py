"""The tree of a conversation on the screen.

Draws only the rows that are seen. A line that comes is put into the `Layout` where it belongs; the rest is not touched. What the reader
looks at stays where it is: lines that come above move the window with them, and a window at the end follows the end. Cost, in a
conversation of 10,000 lines: 100 µs for a line that comes, 3 ms to draw the screen, 0.2 s for another width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from antiphon.apps.chat.entries import Entry, Line, Notice, Placement
from antiphon.apps.chat.layout import Layout
from antiphon.apps.chat.room import Room
from antiphon.apps.chat.screen.strokes import clock, folded, guides, indent, marks
from antiphon.apps.chat.screen.wrapping import cut, wrapped
from antiphon.model.ids import MemberId

_AUTHORS = 5
"""Colours for names, given in the order in which they are met."""
_REMEMBERED = 1_000
_GUTTER = 9
"""Cells left of the tree: the mark of news, and the time."""
_HANG = 2
_SIGN_BY_KIND = {"came": "→", "left": "←", "split": "⇎", "merge": "⇌", "warning": "!", "private": "✉", "forgotten": "↑", "hint": "·"}


class ConversationView(ScrollView, can_focus=True):
    class Chosen(Message):
        """A line was chosen (None: no longer one). `to_answer` says that the user wants to write now."""

        def __init__(self, line: Line | None, to_answer: bool) -> None:
            super().__init__()
            self.line, self.to_answer = line, to_answer

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *("chat--time", "chat--guide", "chat--text", "chat--mark", "chat--news", "chat--chosen", "chat--mine", "chat--fold"),
        *(f"chat--author-{number}" for number in range(_AUTHORS)),
        *(f"chat--{kind}" for kind in _SIGN_BY_KIND),
    }
    DEFAULT_CSS = """
    ConversationView {
        background: $background; scrollbar-background: $background; overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1;
        & .chat--text { color: $foreground; }
        & .chat--time { color: $text-muted; }
        & .chat--guide { color: $foreground 40%; }
        & .chat--mark { color: $warning; text-style: italic; }
        & .chat--fold { color: $primary; text-style: bold; }
        & .chat--news { color: $accent; text-style: bold; }
        & .chat--chosen { background: $primary 22%; }
        & .chat--mine { color: $primary; text-style: bold; }
        & .chat--author-0 { color: $success; text-style: bold; }
        & .chat--author-1 { color: $secondary; text-style: bold; }
        & .chat--author-2 { color: $accent; text-style: bold; }
        & .chat--author-3 { color: $error; text-style: bold; }
        & .chat--author-4 { color: $warning; text-style: bold; }
        & .chat--came { color: $success; }
        & .chat--left { color: $text-muted; }
        & .chat--split { color: $warning; text-style: bold; }
        & .chat--merge { color: $success; text-style: bold; }
        & .chat--warning { color: $error; text-style: bold; }
        & .chat--private { color: $secondary; }
        & .chat--hint { color: $text-muted; }
        & .chat--forgotten { color: $text-muted; text-style: italic; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "choose(-1)", "Up", show=False),
        Binding("down", "choose(1)", "Down", show=False),
        Binding("enter", "answer", "Answer"),
        Binding("space", "fold", "Fold"),
        Binding("home", "choose_end(-1)", "First", show=False),
        Binding("end", "choose_end(1)", "Last", show=False),
    ]

    def __init__(self, room: Room, id: str) -> None:
        super().__init__(id=id)
        self.room = room
        self.chosen: Line | None = None
        self._layout = Layout(room.conversation, self._height_of)
        self._colour_by_author: dict[MemberId, int] = {}
        self._width = 0

    # -- what comes ------------------------------------------------------------------------------------------------------------

    def take(self, placements: Sequence[Placement]) -> None:
        """Shows what has come to the conversation."""
        if not self._width:
            return  # nothing is laid out yet: it will be with everything else
        follow = self.scroll_offset.y >= self.max_scroll_y
        moved = self._layout.take(placements, self.scroll_offset.y)
        if self.chosen is not None and self.chosen.id not in self.room.conversation:
            self.chosen = None  # it was forgotten
            self.post_message(self.Chosen(None, False))
        self._resize_content()
        if follow:
            self.scroll_end(animate=False, immediate=True, x_axis=False)
        elif moved:
            self.scroll_to(y=self.scroll_offset.y + moved, animate=False, immediate=True)
        self.refresh()

    def _resize_content(self) -> None:
        self.virtual_size = Size(self._width, self._layout.height)

    def on_resize(self, event: events.Resize) -> None:
        width = self.scrollable_content_region.width
        if width == self._width:
            return
        follow = not self._width or self.scroll_offset.y >= self.max_scroll_y
        first = self._layout.at(self.scroll_offset.y)
        self._width = width
        self._layout.begin()
        if follow:
            self.scroll_end(animate=False, immediate=True, x_axis=False)
        elif first is not None:
            self.scroll_to(y=self._layout.row_of(first[0]), animate=False, immediate=True)
        self.refresh()

    # -- choosing --------------------------------------------------------------------------------------------------------------

    def choose(self, line: Line | None, *, to_answer: bool = False) -> None:
        """Marks a line, and brings it into the window."""
        if line is not None and not line.shown:
            self._fold(line.thread, False)
        self.chosen = line
        if line is not None and line in self._layout:
            row = self._layout.row_of(line)
            self.scroll_to_region(Region(0, row, 1, self._height_of(line)), animate=False, immediate=True)
        self.refresh()
        self.post_message(self.Chosen(line, to_answer))

    def action_choose(self, step: int) -> None:
        """The next line up or down; from no line the last that is seen."""
        if self.chosen is None:
            self._choose_from(self._layout.at(self.scroll_offset.y + self.size.height - 1) or self._layout.at(self._layout.height - 1), -1)
            return
        entry = self._layout.neighbour(self.chosen, step)
        while entry is not None and not isinstance(entry, Line):
            entry = self._layout.neighbour(entry, step)
        if entry is not None:
            self.choose(entry)
        elif step > 0:
            self.choose(None)
            self.scroll_end(animate=False, immediate=True, x_axis=False)

    def action_choose_end(self, step: int) -> None:
        self._choose_from(self._layout.at(0 if step < 0 else self._layout.height - 1), -step)

    def _choose_from(self, found: tuple[Entry, int] | None, step: int) -> None:
        """Chooses the entry, or the first line from it on."""
        entry = None if found is None else found[0]
        while entry is not None and not isinstance(entry, Line):
            entry = self._layout.neighbour(entry, step)
        if entry is not None:
            self.choose(entry)

    def action_answer(self) -> None:
        if self.chosen is not None:
            self.choose(self.chosen, to_answer=True)

    def action_fold(self) -> None:
        """Shows only the first line of the chosen thread, or all of it again."""
        if self.chosen is not None and self.chosen.thread.children:
            self._fold(self.chosen.thread, not self.chosen.thread.folded)
            self.choose(self.chosen.thread)

    def _fold(self, thread: Line, folded: bool) -> None:
        self._layout.fold(thread, folded)
        self._resize_content()
        self.refresh()

    def choose_unread(self) -> None:
        """The next line that has not been read."""
        line = self.room.conversation.next_unread(self.chosen)
        if line is not None:
            self.choose(line)

    def see(self) -> int:
        """What is in the window has been read; returns how many lines that are news no longer."""
        seen = 0
        row, end = self.scroll_offset.y, self.scroll_offset.y + self.size.height
        while row < end and (found := self._layout.at(row)) is not None:
            entry, offset = found
            if isinstance(entry, Line) and self.room.conversation.see(entry):
                seen += 1
            row += max(self._height_of(entry) - offset, 1)
        if seen:
            self.refresh()
        return seen

    def on_click(self, event: events.Click) -> None:
        found = self._layout.at(self.scroll_offset.y + event.y)
        if found is None or not isinstance(found[0], Line):
            self.choose(None)
        elif event.chain > 1:
            self.action_fold()
        else:
            self.choose(found[0], to_answer=True)

    # -- drawing ---------------------------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        found = self._layout.at(self.scroll_offset.y + y)
        plain = self.get_component_rich_style("chat--text")
        if found is None:
            return Strip.blank(self._width, plain)
        entry, row = found
        segments = self._draw(entry, row) if isinstance(entry, Line) else self._draw_notice(entry, row)
        if entry is self.chosen:
            ground = Style(bgcolor=self.get_component_rich_style("chat--chosen").bgcolor)
            segments = [Segment(text, (style or plain) + ground) for text, style, _ in segments]
            plain = plain + ground
        return Strip(segments).adjust_cell_length(self._width, plain)

    def _draw(self, line: Line, row: int) -> list[Segment]:
        style = self.get_component_rich_style
        text = self._row(line, row)
        branches = guides(line, row)
        if row:
            return [Segment(" " * _GUTTER + branches, style("chat--guide")), Segment(text, style("chat--text"))]
        news = Segment(" ● " if line.unread else "   ", style("chat--news"))
        return [
            news,
            Segment(f"{clock(line.at)} ", style("chat--time")),
            Segment(branches, style("chat--guide")),
            Segment(self._author(line), style(self._colour(line.author))),
            Segment(f"  {marks(line)}", style("chat--mark")),
            Segment(text, style("chat--text" if line.readable else "chat--mark")),
            Segment(folded(line), style("chat--fold")),
        ]

    def _draw_notice(self, notice: Notice, row: int) -> list[Segment]:
        style = self.get_component_rich_style(f"chat--{notice.kind}")
        text = self._row(notice, row)
        if row:
            return [Segment(" " * (_GUTTER + _HANG) + text, style)]
        when = "     " if notice is self._layout.top else clock(notice.at)
        time = Segment(f"   {when} ", self.get_component_rich_style("chat--time"))
        return [time, Segment(f"{_SIGN_BY_KIND[notice.kind]} {text}", style)]

    def _author(self, line: Line) -> str:
        return self.room.call(line.author) + (" (guest)" if line.guest else "")

    def _colour(self, author: MemberId) -> str:
        if author == self.room.group.me:
            return "chat--mine"
        if len(self._colour_by_author) > _REMEMBERED:
            self._colour_by_author.clear()
        return f"chat--author-{self._colour_by_author.setdefault(author, len(self._colour_by_author)) % _AUTHORS}"

    def _row(self, entry: Entry, row: int) -> str:
        rows = self._rows(entry)
        return rows[row] if row < len(rows) else ""  # a mark that went away may have made it shorter than its place

    def _height_of(self, entry: Entry) -> int:
        return len(self._rows(entry))

    def _rows(self, entry: Entry) -> list[str]:
        room = self._width - _GUTTER
        if isinstance(entry, Notice):
            return wrapped(entry.text, room - _HANG, room - _HANG)
        room -= indent(entry)
        lead = cell_len(self._author(entry)) + _HANG + len(marks(entry))
        if entry.folded:
            return [cut(entry.text, room - lead - cell_len(folded(entry)))]
        return wrapped(entry.text, room - lead, room - _HANG)
