"""The chat application: rooms in the middle, groups left, members right, a line to write in, and what can be done in the footer.

The node and its rooms are the lobby's; this draws them and turns keys and clicks into its calls. Everything can be done by keyboard: the
line to write in has the focus, up and down choose what it answers, and the function keys do the rest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import ClassVar

from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.css.query import NoMatches
from textual.widgets import ContentSwitcher, Footer, Input, OptionList, Static

from antiphon.apps.chat.entries import Line, Placement
from antiphon.apps.chat.harmless import harmless
from antiphon.apps.chat.lobby import Lobby, Sight, sentence
from antiphon.apps.chat.room import Room
from antiphon.apps.chat.screen.panels import GroupList, MemberList, StatusLine, Writing
from antiphon.apps.chat.screen.prompt import Prompt
from antiphon.apps.chat.screen.themes import DAY, NIGHT
from antiphon.apps.chat.screen.view import ConversationView
from antiphon.errors import AntiphonError
from antiphon.model.ids import GroupId

_LOOK_S = 1.0
"""How often what cannot be heard of is looked at: groups that ended, lines that are held."""
_DRAW_S = 0.05
"""How long the panels may lag behind."""
_JOIN_S = 30.0
_NOBODY = """You are in no group. F2 founds one, F3 joins one.

Groups that others are in appear on the left."""
_NOT_BEHIND_A_QUESTION = frozenset(("found", "join", "leave", "reject", "next_room", "why", "next_unread", "new_thread"))


class ChatApp(App[None]):
    TITLE = "antiphon chat"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - as Textual declares it
        (0, "-narrow"),
        (72, "-middle"),
        (104, "-wide"),
    ]
    CSS = """
    #rooms { width: 1fr; height: 1fr; border: round $foreground 25%; border-title-color: $foreground; border-title-style: bold; }
    #rooms:focus-within { border: round $primary; }
    #nobody { padding: 2 4; color: $text-muted; }
    .-narrow #groups, .-narrow #members, .-middle #members { display: none; }
    Footer { background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f2", "found", "New", priority=True),
        Binding("f3", "join", "Join", priority=True),
        Binding("f4", "leave", "Leave", priority=True),
        Binding("f5", "reject", "Reject", priority=True),
        Binding("f6", "next_room", "Next", priority=True),
        Binding("f7", "why", "Waits", priority=True),
        Binding("f8", "next_unread", "Unread", priority=True),
        Binding("escape", "new_thread", "Thread"),
        Binding("ctrl+q", "quit", "Quit", priority=True),
        Binding("f9", "light", "Light", priority=True),
    ]

    def __init__(self, lobby: Lobby, group: str | None = None, *, where: str = "", invitation: str = "", light: bool = False) -> None:
        """`group` is joined, or founded, at the start. `where` says how this node is connected, `invitation` how others come here."""
        super().__init__()
        self.lobby = lobby
        self._group, self._where, self._invitation, self._light = group, where, invitation, light
        self._view_by_group: dict[GroupId, ConversationView] = {}
        self._views = 0
        self._stale = False
        self._trouble: list[str] = []

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield GroupList()
            with Vertical():
                with ContentSwitcher(id="rooms", initial="nobody"):
                    yield Static(id="nobody")
                yield Writing()
            yield MemberList()
        yield StatusLine(id="status")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        for theme in (NIGHT, DAY):
            self.register_theme(theme)
        self.theme = (DAY if self._light else NIGHT).name
        self.lobby.tell = self._told
        self.query_one("#nobody", Static).update(Content(_NOBODY))
        self.query_one("#writing").focus()
        self.set_interval(_LOOK_S, self._look)
        self.run_worker(self._discover(), name="groups that come")
        if self._group is not None:
            self._try(self._enter(self.lobby.join(self._group, found=True, timeout=_JOIN_S)))
        self._draw()

    # -- rooms -----------------------------------------------------------------------------------------------------------------

    @property
    def view(self) -> ConversationView | None:
        """The room in front, as it is shown."""
        current = self.query_one("#rooms", ContentSwitcher).current
        return next((view for view in self._view_by_group.values() if view.id == current), None)

    @property
    def room(self) -> Room | None:
        view = self.view
        return None if view is None else view.room

    async def _enter(self, entering: Awaitable[Room]) -> None:
        room = await entering
        before = self._view_by_group.get(room.id)
        if before is not None and before.room is not room:
            await before.remove()  # it was put out of the group, and is back
        if before is None or before.room is not room:
            self._views += 1
            view = self._view_by_group[room.id] = ConversationView(room, f"room-{self._views}")
            await self.query_one("#rooms", ContentSwitcher).mount(view)
            if len(room.members) == 1 and self._invitation:
                self._told(room, [room.conversation.note(f"Others come with: {self._invitation}", "hint", self.lobby.node.now())])
        self._show(room.id)

    def _show(self, group: GroupId | None) -> None:
        switcher = self.query_one("#rooms", ContentSwitcher)
        view = None if group is None else self._view_by_group.get(group)
        switcher.current = "nobody" if view is None else view.id
        switcher.border_title = Content("" if view is None else view.room.name)
        self.query_one("#writing").focus()
        self._draw()

    async def _leave(self, room: Room) -> None:
        view = self._view_by_group.pop(room.id, None)
        if view is not None:
            self._show(next(iter(self._view_by_group), None))
            await view.remove()
        await self.lobby.leave(room)
        self._draw()

    def _told(self, room: Room, placements: Sequence[Placement]) -> None:
        view = self._view_by_group.get(room.id)
        if view is not None and placements:
            view.take(placements)
        self._draw_soon()

    async def _discover(self) -> None:
        async for info in self.lobby.node.discovered():
            sight = next((sight for sight in self.lobby.groups() if sight.id == info.id and not sight.joined), None)
            if sight is not None and sight.name != self._group:
                about = f" ({sight.about})" if sight.about else ""
                self.notify(f"{sight.name}{about}: F3 joins it, F5 rejects it.", title="New group", markup=False)
            self._draw()

    # -- drawing ---------------------------------------------------------------------------------------------------------------

    def _draw_soon(self) -> None:
        if not self._stale:
            self._stale = True
            self.set_timer(_DRAW_S, self._draw)

    def _draw(self) -> None:
        self._stale = False
        with suppress(NoMatches):  # the screen is being built, or taken down: rooms go on meanwhile
            room, view = self.room, self.view
            self.query_one(GroupList).show(self.lobby.groups(), None if room is None else room.id)
            self.query_one(MemberList).show(room)
            self.query_one(Writing).show(room, None if view is None or view.chosen is None else _quote(room, view.chosen))
            self.query_one(StatusLine).show(room, self._where, self._trouble)

    def _look(self) -> None:
        self.lobby.check()
        with suppress(NoMatches):
            room, view = self.room, self.view
            self._trouble = [] if room is None or not room.open else _trouble(room)
            if view is not None and self.app_focus and len(self.screen_stack) == 1:
                view.see()
        self._draw()

    def _try(self, work: Awaitable[None]) -> None:
        """Does something that may fail for reasons that the user should know."""

        async def attempt() -> None:
            try:
                await work
            except AntiphonError as error:
                self._complain(error)

        self.run_worker(attempt(), exit_on_error=True)

    def _complain(self, error: AntiphonError) -> None:
        self.notify(sentence(error), severity="error", markup=False, timeout=8)

    # -- writing and choosing ----------------------------------------------------------------------------------------------------

    @on(Input.Submitted, "#writing")
    def _submitted(self, event: Input.Submitted) -> None:
        view = self.view
        if view is None or not event.value.strip():
            return
        answers = view.chosen
        event.input.clear()
        view.choose(None)
        view.scroll_end(animate=False, x_axis=False)
        self.run_worker(self._say(view.room, event.value, answers))

    async def _say(self, room: Room, text: str, answers: Line | None) -> None:
        try:
            await room.say(text, None if answers is None else answers.id)
        except AntiphonError as error:
            self._complain(error)
            writing = self.query_one(Writing)
            if not writing.value:  # what could not be said is not lost
                writing.value = text
                writing.cursor_position = len(text)

    @on(ConversationView.Chosen)
    def _chosen(self, event: ConversationView.Chosen) -> None:
        if event.to_answer:
            self.query_one("#writing").focus()
        self._draw()

    def key_up(self) -> None:
        self._choose_from_writing(-1)

    def key_down(self) -> None:
        self._choose_from_writing(1)

    def _choose_from_writing(self, step: int) -> None:
        if isinstance(self.focused, Writing) and self.view is not None:
            self.view.action_choose(step)

    @on(OptionList.OptionSelected, "#groups")
    def _opened(self, event: OptionList.OptionSelected) -> None:
        sight = self.query_one(GroupList).sight(event.option_index)
        if sight.joined:
            self._show(sight.id)
        else:
            self._try(self._enter(self.lobby.join(sight.id, timeout=_JOIN_S)))

    # -- what the keys do --------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Behind a question only the question's keys work."""
        return len(self.screen_stack) == 1 or action not in _NOT_BEHIND_A_QUESTION

    def action_found(self) -> None:
        prompt = Prompt("A new group", "Its name. Others on the network are told of it.", yes="Enter founds it", refuse=_refuse_name)
        self.push_screen(prompt, lambda name: self._try(self._enter(self.lobby.found(name))) if name else None)

    def action_join(self) -> None:
        pointed = self._heard_of()
        prompt = Prompt(
            "Join a group",
            "Its name. Everything that was said in it, and is still kept, comes with it.",
            default="" if pointed is None else pointed.name,
            yes="Enter joins it",
            refuse=_refuse_name,
        )

        def join(name: str | None) -> None:
            if name:
                group = pointed.id if pointed is not None and name == pointed.name else name
                self._try(self._enter(self.lobby.join(group, timeout=_JOIN_S)))

        self.push_screen(prompt, join)

    def action_leave(self) -> None:
        room = self.room
        if room is not None:
            text = "The others go on. Its lines are no longer here."
            prompt = Prompt(f"Leave {room.name}?", text, asks=False, default="yes", yes="Enter leaves")
            self.push_screen(prompt, lambda yes: self._try(self._leave(room)) if yes else None)

    def action_reject(self) -> None:
        pointed = self._heard_of()
        if pointed is None:
            self.notify("There is no group that you are not in: nothing to reject.", markup=False)
            return
        try:
            self.lobby.reject(pointed.id)
        except AntiphonError as error:
            self._complain(error)
        self._draw()

    def action_next_room(self) -> None:
        groups = list(self._view_by_group)
        room = self.room
        if groups:
            self._show(groups[(groups.index(room.id) + 1) % len(groups) if room is not None else 0])

    def action_why(self) -> None:
        room = self.room
        if room is not None:
            waiting = "\n\n".join(_waits(room)) or "Nothing: every line that is here can be read."
            self.push_screen(Prompt("What waits, and for what", waiting, asks=False, yes="Enter closes"))

    def action_next_unread(self) -> None:
        if self.view is not None:
            self.view.choose_unread()

    def action_new_thread(self) -> None:
        if self.view is not None:
            self.view.choose(None)
        self.query_one("#writing").focus()

    def action_light(self) -> None:
        self.theme = (NIGHT if self.theme == DAY.name else DAY).name

    def _heard_of(self) -> Sight | None:
        """The group to join or reject: the one that the list points to, or else the first that this node is not in."""
        pointed = self.query_one(GroupList).pointed
        if pointed is not None and not pointed.joined:
            return pointed
        return next((sight for sight in self.lobby.groups() if not sight.joined), None)


def _quote(room: Room | None, line: Line) -> str:
    return line.text if room is None else f"{room.call(line.author)}: {line.text}"


def _trouble(room: Room) -> list[str]:
    """What the user should know of, most important first."""
    if room.stopped:
        return ["too few are on this side: what you write waits"]
    missing = room.out_of_reach()
    waits = _waits(room)
    held = room.held()
    told = [f"{held:,} held: {waits[0]}" if held > 1 else waits[0]] if waits else []
    return told + ([f"{len(missing):,} out of reach"] if missing else [])


def _waits(room: Room) -> list[str]:
    return [f"{room.call(message.sender)}:{message.seqno} {harmless(why.reason)}" for message, why in room.waiting()]


def _refuse_name(name: str) -> str | None:
    if not name:
        return "Type a name first."
    if len(name) > 64 or "#" in name or not name.isprintable():
        return "A name has at most 64 printable characters and no #."
    return None
