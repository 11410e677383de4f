"""What stands beside and under the tree: the groups, the members, what is being answered, and the status line.

Everything that came from others is drawn as `Content`, which is text and never markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from antiphon.apps.chat.lobby import Sight
from antiphon.apps.chat.room import Room
from antiphon.apps.chat.screen.wrapping import cut
from antiphon.model.ids import GroupId

_MEMBERS_SHOWN = 200
_GROUPS_SHOWN = 500
_SAID_SHOWN = 60


class GroupList(OptionList):
    """The groups, own ones first. Enter opens a room or joins a group."""

    DEFAULT_CSS = """
    GroupList { width: 26; height: 1fr; background: $background; border: round $foreground 25%; border-title-color: $foreground; }
    GroupList { border-title-style: bold; padding: 0; scrollbar-size-vertical: 1; }
    GroupList:focus { border: round $primary; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select", "Open or join")]

    def __init__(self) -> None:
        super().__init__(id="groups")
        self.border_title = "Groups"
        self._sights: list[Sight] = []
        self._drawn: list[tuple[Sight, bool]] = []

    def show(self, sights: Sequence[Sight], current: GroupId | None) -> None:
        drawn = [(sight, sight.id == current) for sight in sights[:_GROUPS_SHOWN]]
        if drawn == self._drawn:
            return
        pointed = self.pointed
        self._drawn, self._sights = drawn, [sight for sight, _ in drawn]
        self.set_options(Option(_group(sight, here)) for sight, here in drawn)
        for place, sight in enumerate(self._sights):
            if pointed is not None and sight.id == pointed.id:
                self.highlighted = place

    @property
    def pointed(self) -> Sight | None:
        """The group that the list points to."""
        place = self.highlighted
        return self._sights[place] if place is not None and place < len(self._sights) else None

    def sight(self, place: int) -> Sight:
        return self._sights[place]


class MemberList(VerticalScroll):
    """Who is here, and who is out of reach."""

    DEFAULT_CSS = """
    MemberList { width: 22; height: 1fr; background: $background; border: round $foreground 25%; padding: 0 1; }
    MemberList { border-title-color: $foreground; border-title-style: bold; scrollbar-size-vertical: 1; }
    MemberList:focus { border: round $primary; }
    """

    def __init__(self) -> None:
        super().__init__(id="members")
        self.border_title = "Here"

    def compose(self) -> ComposeResult:
        yield Static()

    def show(self, room: Room | None) -> None:
        if room is None or not room.open:
            self.border_title = "Here"
            self.query_one(Static).update(Content(""))
            return
        members, missing = room.members, room.out_of_reach()
        self.border_title = f"Here: {len(members):,}"
        others = sorted(room.call(member) for member in members if member != room.group.me)
        rows = [Content.styled("● ", "$text-success") + Content.styled(f"{room.call(room.group.me)} (you)", "bold")]
        rows += [Content.styled("● ", "$text-success") + Content(name) for name in others[: _MEMBERS_SHOWN - 1]]
        if len(members) > _MEMBERS_SHOWN:
            rows.append(Content.styled(f"… and {len(members) - _MEMBERS_SHOWN:,} more", "$foreground 60%"))
        if missing:
            rows += [Content(""), Content.styled("Out of reach", "$text-warning")]
            rows += [Content.styled(f"○ {room.call(member)}", "$foreground 60%") for member in missing[:_MEMBERS_SHOWN]]
        self.query_one(Static).update(Content("\n").join(rows))


class Writing(Input):
    """Where lines are written. Up and down choose the line to answer; pasted lines become one."""

    DEFAULT_CSS = """
    Writing { border: round $foreground 25%; background: $background; padding: 0 1; border-title-color: $accent; }
    Writing:focus { border: round $primary; }
    """

    def __init__(self) -> None:
        super().__init__(id="writing", placeholder="Write a line. ↑ chooses one to answer.", select_on_focus=False)
        self.border_title = "New thread"

    def show(self, room: Room | None, answers: str | None) -> None:
        self.disabled = room is None or not room.open
        title = "No group: F2 founds one, F3 joins one"
        if room is not None:
            title = f"New thread in {room.name}" if answers is None else f"Answer to {cut(answers, _SAID_SHOWN)}"
        self.border_title = Content(title)  # a string would be read as markup

    def on_paste(self, event: events.Paste) -> None:
        event.prevent_default()  # Input would take the first line and lose the others
        event.stop()
        self.insert_text_at_cursor(" ".join(event.text.split()))


class StatusLine(Static):
    DEFAULT_CSS = """
    StatusLine { height: 1; padding: 0 1; background: $panel; color: $foreground; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def show(self, room: Room | None, where: str, trouble: Sequence[str]) -> None:
        pieces: list[Content] = []
        if room is not None and room.open:
            unread = room.conversation.unread
            pieces.append(Content(f"view {room.group.view.number}, {len(room.members):,} here"))
            pieces.append(Content.styled(f"{unread:,} unread", "bold $text-accent") if unread else Content("all read"))
            if not room.caught_up:
                pieces.append(Content.styled("catching up", "$text-warning"))
        if trouble:
            pieces.append(Content.styled(trouble[0], "bold $text-warning"))
        elif room is not None:
            pieces.append(Content("nothing held"))
        pieces.append(Content.styled(where, "$foreground 60%"))
        self.update(Content(" · ").join(pieces))


def _group(sight: Sight, here: bool) -> Content:
    sign = Content.styled("▸ " if here else "  ", "$text-primary")
    name = Content.styled(cut(sight.name, 14), "bold" if here else ("" if sight.joined else "$foreground 60%"))
    if sight.unread:
        return sign + name + Content.styled(f"  {sight.unread:,} new", "bold $text-accent")
    if sight.joined:
        return sign + name
    return sign + name + Content.styled(f"  {sight.members:,} there", "$foreground 60%")
