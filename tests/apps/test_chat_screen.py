"""The chat on the screen, driven by keys and clicks, with others in the same process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from antiphon.api import Node
from antiphon.apps.chat.entries import Line
from antiphon.apps.chat.line import TEXT_LIMIT, ChatLine
from antiphon.apps.chat.lobby import Lobby
from antiphon.apps.chat.room import Room
from antiphon.apps.chat.screen import ChatApp
from antiphon.apps.chat.screen.panels import GroupList, Writing
from antiphon.apps.chat.screen.prompt import Prompt
from antiphon.apps.chat.screen.view import ConversationView
from antiphon.model.options import Settings


class Seat:
    """Somebody in front of the screen."""

    def __init__(self, app: ChatApp, pilot: Pilot[None], until: Any) -> None:
        self.app, self.pilot, self._until = app, pilot, until

    @property
    def room(self) -> Room:
        room = self.app.room
        assert room is not None
        return room

    @property
    def view(self) -> ConversationView:
        view = self.app.view
        assert view is not None
        return view

    async def type(self, text: str) -> None:
        self.app.query_one(Writing).insert_text_at_cursor(text)
        await self.pilot.press("enter")

    async def sees(self, *texts: str) -> None:
        await self._until(lambda: all(text in self.screen() for text in texts), f"{texts} are on the screen", self.screen)
        await self.pilot.pause()

    def screen(self) -> str:
        """Everything that is on the screen now, as text."""
        return "\n".join("".join(segment.text for segment in strip) for strip in self.app.screen._compositor.render_strips())

    def tree(self) -> list[str]:
        """The rows of the room in front, without the time."""
        rows = [self.view.render_line(y).text for y in range(self.view.size.height)]
        return [row[9:].rstrip() for row in rows if row.strip()]


@pytest.fixture
def seat(until: Any) -> Any:
    @asynccontextmanager
    async def sit(lobby: Lobby, group: str | None = "trip", size: tuple[int, int] = (110, 32), **more: Any) -> AsyncIterator[Seat]:
        app = ChatApp(lobby, group, **more)
        async with app.run_test(size=size, notifications=True) as pilot:
            if group is not None:
                await until(lambda: app.room is not None, "the group is entered")
            yield Seat(app, pilot, until)

    return sit


async def test_people_talk_in_threads(chats: Any, seat: Any, until: Any) -> None:
    """The chat would not be one: what is typed would not reach the others, or an answer would not stand under its question."""
    async with chats("ana", "ben") as town, seat(town["ana"]) as ana:
        ben = await town["ben"].join("trip")
        await ana.sees("ben came.")
        await ana.type("Did you visit Delhi?")
        await ana.type("Did you visit Chennai?")
        await until(lambda: len(ben.conversation) == 2, "ben reads both")
        first, second = ben.conversation.threads[-2:]
        assert isinstance(first, Line)
        assert isinstance(second, Line)
        await ben.say("Yes", first.id)
        await ana.sees("└─ ben  Yes")
        tree = ana.tree()
        start = tree.index("ana  Did you visit Delhi?")
        assert tree[start:] == ["ana  Did you visit Delhi?", "└─ ben  Yes", "ana  Did you visit Chennai?"]

        await ana.pilot.press("up", "up")
        await ana.sees("Answer to ben: Yes")
        await ana.type("How was it?")
        await until(lambda: len(ben.conversation) == 4, "ben reads the answer")
        assert ben.conversation[first.id].children[0].children[0].text == "How was it?"
        await ana.sees("   └─ ana  How was it?", "New thread in trip")


async def test_an_answer_is_given_with_the_mouse_and_taken_back_with_escape(chats: Any, seat: Any, until: Any) -> None:
    """A click on a line would do nothing, or a line would become an answer that was meant to begin a thread."""
    async with chats("ana", "ben") as town, seat(town["ana"]) as ana:
        (ben,) = await town.join("trip", "ben")
        await ben.say("Who brings the tent?")
        await ana.sees("Who brings the tent?")
        row = next(y for y in range(ana.view.size.height) if "tent" in ana.view.render_line(y).text)
        await ana.pilot.click(ConversationView, offset=(20, row))
        await ana.sees("Answer to ben: Who brings the tent?")
        assert isinstance(ana.app.focused, Writing)
        await ana.pilot.press("escape")
        await ana.sees("New thread in trip")
        await ana.type("Good morning")
        await until(lambda: len(ben.conversation) == 2, "ben reads it")
        assert ben.conversation.threads[-1].text == "Good morning"


async def test_groups_are_found_founded_joined_and_left(chats: Any, seat: Any, until: Any) -> None:
    """Somebody could not get into a group that others are in, or not out of it."""
    async with chats("ana", "ben") as town, seat(town["ana"], None) as ana:
        assert "You are in no group" in ana.screen()
        music = await town["ben"].found("music")
        await music.say("Which key?")
        await ana.sees("music", "1 there")
        await ana.pilot.press("f3")
        await ana.sees("Join a group")
        await ana.pilot.press("enter")
        await ana.sees("ben  Which key?", "Here: 2", "ana (you)")

        await ana.pilot.press("f2")
        await ana.pilot.press(*"tea", "enter")
        await ana.sees("New thread in tea", "alone so far")
        await until(lambda: any(sight.name == "tea" for sight in town["ben"].groups()), "ben hears of tea")

        await ana.pilot.press("f6")
        await ana.sees("New thread in music")
        await ana.pilot.press("f4")
        await ana.sees("Leave music?")
        await ana.pilot.press("enter")
        await ana.sees("New thread in tea", "music  1 there")
        await until(lambda: len(music.members) == 1, "ben sees that ana left")
        assert "ana left." in [entry.text for entry in music.conversation.threads]


async def test_groups_are_rejected_and_opened_from_the_list(chats: Any, seat: Any, until: Any) -> None:
    """Groups that nobody wants would stay in the list for ever."""
    async with chats("ana", "ben") as town, seat(town["ana"]) as ana:
        await town["ben"].found("spam")
        await ana.sees("spam")
        await ana.pilot.press("f5")
        await until(lambda: len(ana.app.query_one(GroupList).options) == 1, "spam is gone from the list")
        await town["ben"].found("jam")
        await ana.sees("jam")
        groups = ana.app.query_one(GroupList)
        groups.focus()
        groups.highlighted = 1
        await ana.pilot.press("enter")
        await ana.sees("New thread in jam")
        groups.focus()
        groups.highlighted = 0
        await ana.pilot.press("enter")
        await ana.sees("New thread in trip")


async def test_a_newcomer_sees_the_whole_tree(chats: Any, seat: Any, until: Any) -> None:
    """Who comes later would read answers without their questions."""
    async with chats("ana", "ben", "cem") as town:
        ben, cem = await town.join("trip", "ben", "cem")
        question = await ben.say("Did you visit Delhi?")
        await until(lambda: len(cem.conversation) == 1, "cem reads it")
        await cem.say("Yes", question)
        async with seat(town["ana"]) as ana:
            await ana.sees("ben  Did you visit Delhi?", "└─ cem  Yes", "all read")
            assert ana.room.conversation.unread == 0, "the past is no news"


async def test_hostile_text_is_shown_and_not_obeyed(chats: Any, seat: Any, until: Any) -> None:
    """A member could take over the terminals of the others, or style and link what they read."""
    async with chats("ana", "[bold]ben[/]") as town, seat(town["ana"]) as ana:
        (ben,) = await town.join("trip", "[bold]ben[/]")
        await ben.group.send(ChatLine("\x1b[2J\x1b]52;c;aGk=\x07 [red on red]x[/] \u202etxet", float("nan")))
        await ana.sees("␛[2J␛]52;c;aGk=␇", "[red on red]x[/]", "\ufffdtxet", "[bold]ben[/]", "--:--")
        await ana.pilot.press("up")
        await ana.sees("Answer to [bold]ben[/]: ␛")
        await ben.group.send(ChatLine("\n" * TEXT_LIMIT, 1e300))
        await until(lambda: len(ana.room.conversation) == 2, "the second line has come")
        await town["[bold]ben[/]"].found("[@click=app.exit]quit[/]")
        await ana.sees("[@click=app.ex")
        assert all(character.isprintable() or character in "\n\u200d\u200c" for character in ana.screen())


async def test_what_is_no_chat_line_is_shown_as_such(chats: Any, seat: Any, until: Any) -> None:
    """Another program in the group could stop the chat, or its messages would vanish without a trace."""
    async with chats("ana", "bot") as town, seat(town["ana"]) as ana:
        bot: Node = town["bot"].node
        group = await bot.join(ana.room.id)
        await group.send(b"\xff\xfe not msgpack")
        await group.send(b"\x82\xa4text\xa1a" + b"\xa2at" + b"\xcb" + bytes(8))
        await group.send(ChatLineTooLong)
        await ana.sees("bytes that are no chat line", "bot  a")
        await group.send(b"\x82\xa4text\xa5still\xa2at\xcb" + bytes(8), to=ana.room.group.me)
        await ana.sees("bot, to you alone: still")


ChatLineTooLong = b"\x82\xa4text\xda" + (TEXT_LIMIT + 1).to_bytes(2, "big") + b"a" * (TEXT_LIMIT + 1) + b"\xa2at\xcb" + bytes(8)


async def test_a_line_that_cannot_be_said_is_kept_and_explained(chats: Any, seat: Any) -> None:
    """Somebody would lose a long text without knowing why."""
    async with chats("ana") as town, seat(town["ana"]) as ana:
        await ana.pilot.press("enter")
        await ana.type("a" * (TEXT_LIMIT + 1))
        await ana.sees("2,001 characters")
        assert len(ana.app.query_one(Writing).value) == TEXT_LIMIT + 1
        assert len(ana.room.conversation) == 0


async def test_pasted_lines_become_one(chats: Any, seat: Any, until: Any) -> None:
    """Of a pasted paragraph only the first line would be sent."""
    from textual.events import Paste

    async with chats("ana") as town, seat(town["ana"]) as ana:
        ana.app.query_one(Writing).post_message(Paste("one\ntwo\n\n three"))
        await until(lambda: ana.app.query_one(Writing).value, "the text is there")
        await ana.pilot.press("enter")
        await ana.sees("one two three")


async def test_what_is_read_stays_in_place_while_lines_come(chats: Any, seat: Any, until: Any) -> None:
    """Whoever reads back in a busy group would have the text run away under the eyes."""
    async with chats("ana", "ben") as town, seat(town["ana"]) as ana:
        (ben,) = await town.join("trip", "ben")
        ids = [await ben.say(f"line {number}") for number in range(80)]
        await ana.sees("line 79")
        await ana.pilot.press(*["up"] * 40)
        shown = ana.tree()
        await ben.say("an answer far above", ids[1])
        await ben.say("a new thread below")
        await until(lambda: len(ana.room.conversation) == 82, "both have come")
        await ana.pilot.pause()
        assert ana.tree() == shown
        ana.view.scroll_home(animate=False)
        await ana.sees("└─ ben  an answer far above")
        await ana.pilot.press("escape")
        ana.view.scroll_end(animate=False)
        await ben.say("at the end")
        await ana.sees("at the end")


async def test_unread_lines_of_other_groups_are_counted(chats: Any, seat: Any, until: Any) -> None:
    """A question in the group that is not in front would go unnoticed."""
    async with chats("ana", "ben") as town, seat(town["ana"]) as ana:
        await ana.app._enter(town["ana"].join("music", found=True))
        ben, _ = [await town["ben"].join(name) for name in ("trip", "music")]
        await ben.say("anybody?")
        await ana.sees("trip  1 new")
        await ana.pilot.press("f6")
        await ana.sees("ben  anybody?")
        await until(lambda: "1 new" not in ana.screen(), "it is read")


async def test_threads_fold_and_unfold(chats: Any, seat: Any, until: Any) -> None:
    """A long thread that is of no interest could not be put out of the way."""
    async with chats("ana", "ben") as town, seat(town["ana"]) as ana:
        (ben,) = await town.join("trip", "ben")
        question = await ben.say("Who brings the tent?")
        for number in range(5):
            await ben.say(f"not me {number}", question)
        await ana.sees("not me 4")
        await until(lambda: not ana.room.conversation.unread, "all is read")
        ana.view.focus()
        await ana.pilot.press("up", "space")
        await ana.sees("▸ 5 more")
        assert "not me 2" not in ana.screen()
        await ben.say("not me either", question)
        await ana.sees("▸ 6 more, 1 new")
        await ana.pilot.press("space")
        await ana.sees("└─ ben  not me either")


async def test_a_split_and_its_end_are_told_and_the_tree_is_whole_again(chats: Any, seat: Any, until: Any) -> None:
    """People would not know that they talk to half of the group, or what the others said meanwhile would be missing or out of place."""
    async with chats("ana", "ben", "cem") as town, seat(town["ana"]) as ana:
        ben, cem = await town.join("trip", "ben", "cem")
        question = await ben.say("Where do we meet?")
        await until(lambda: len(cem.conversation) == 1, "cem reads it")
        town.split(("ana", "ben"), ("cem",))
        await ana.sees("cem is out of reach", "Out of reach", "1 out of reach")
        await ben.say("At the bridge", question)
        await cem.say("At the station", question)
        town.heal()
        await ana.sees("are one group", "cem  came late · At the station", "ben  At the bridge")
        await until(lambda: len(cem.conversation) == 3, "cem reads what was said on the other side")
        assert [line.text for line in cem.conversation[question].children] == [
            line.text for line in ana.room.conversation[question].children
        ], "the same tree on both sides"


async def test_a_held_line_says_what_it_waits_for(chats: Any, seat: Any, until: Any) -> None:
    """Something would be missing from the conversation, and nobody could tell why."""
    patient = Settings(digest_s=50.0, heartbeat_s=50.0, parent_s=100.0, suspect_s=200.0)
    async with chats("ana", "ben", "cem", settings=patient) as town, seat(town["ana"]) as ana:
        ben, cem = await town.join("trip", "ben", "cem")
        await until(lambda: len(ana.room.members) == 3, "all are there")
        town.split(("ana", "cem"), ("ben",))
        town.split(("ana",), ("ben",), ())
        question = await ben.say("Did you visit Delhi?")
        await until(lambda: len(cem.conversation) == 1, "cem reads it")
        await cem.say("Yes", question)
        await until(lambda: ana.room.held() == 1, "the answer waits")
        await ana.sees("waits for ben:1, which it names")
        await ana.pilot.press("f7")
        await ana.sees("What waits, and for what", "cem:1 waits for ben:1")
        await ana.pilot.press("enter")
        assert len(ana.room.conversation) == 0
        town.heal()


async def test_a_line_whose_parent_is_lost_is_marked(chats: Any, seat: Any, until: Any) -> None:
    """An answer to something that nobody has any more would look like the beginning of a thread."""
    from antiphon.model.ids import MemberId, MessageId

    async with chats("ana") as town, seat(town["ana"]) as ana:
        conversation, ben = ana.room.conversation, MemberId("ben#0000000000000001")
        lost = Line(MessageId(ben, 2), "Yes", 5.0, answers=MessageId(ben, 1), lost=True)
        ana.view.take([placement for placement in (conversation.add(lost),) if placement])
        await ana.sees("ben  answers a line that is lost · Yes")


async def test_it_fits_into_small_terminals_and_changes_size(chats: Any, seat: Any, until: Any) -> None:
    """On half a laptop screen the lists would leave no room for the conversation."""
    async with chats("ana", "ben") as town, seat(town["ana"], size=(60, 16)) as ana:
        (ben,) = await town.join("trip", "ben")
        await ben.say("word " * 30)
        await ana.sees("word word")
        assert not ana.app.query_one("#groups").display
        narrow = len(ana.tree())
        await ana.pilot.resize_terminal(140, 40)
        await ana.sees("Groups", "Here: 2")
        assert len(ana.tree()) < narrow
        await ana.pilot.resize_terminal(20, 8)
        await ana.pilot.pause()
        await ana.pilot.press("f9", "f7")
        await ana.pilot.pause()
        assert ana.app.theme == "antiphon-day"


async def test_names_are_checked_where_they_are_typed(chats: Any, seat: Any) -> None:
    """The reason why a group cannot be founded would be told after the name is gone."""
    async with chats("ana") as town, seat(town["ana"]) as ana:
        await ana.pilot.press("f2", "enter")
        await ana.sees("Type a name first.")
        await ana.pilot.press(*"a#b", "enter")
        await ana.sees("no #.")
        assert isinstance(ana.app.screen, Prompt)
        await ana.pilot.press("escape", "f3", *"nowhere", "enter")
        await ana.sees("cannot join nowhere")
        await ana.pilot.press("f2", *"trip", "enter")
        await ana.sees("there is a group trip already")
        assert ana.app.query_one("#nobody", Static) is not None


async def test_who_was_put_out_is_told_and_can_come_back(chats: Any, seat: Any, until: Any) -> None:
    """Somebody would go on writing into a group that they are no longer in."""
    async with chats("ana", "ben") as town, seat(town["ana"]) as ana:
        (ben,) = await town.join("trip", "ben")
        await ben.say("still here")
        await ana.sees("still here", "ben came")
        town["ana"].node.leave(ana.room.id)  # not by the user's hand
        await ana.sees("You are no longer in trip: left.")
        await until(lambda: ana.app.query_one(Writing).disabled, "nothing can be written")
        await ana.pilot.press("f3", *"trip", "enter")
        await ana.sees("You are here with ben.", "ben  still here")
        await ana.type("back again")
        await until(lambda: ben.conversation.threads[-1].text == "back again", "ben reads it")
        await ana.sees("ana  back again")


async def test_a_long_conversation_is_cut_and_says_so(chats: Any, seat: Any, until: Any) -> None:
    """A chat that is left open for weeks would grow until the machine is full."""
    async with chats("ana", "ben") as town, seat(town["ana"]) as ana:
        (ben,) = await town.join("trip", "ben")
        ana.room.conversation.limit = 200
        for number in range(500):
            await ben.say(f"line {number}")
        await ana.sees("line 499")
        assert len(ana.room.conversation) <= 200
        await ana.pilot.press("up")
        ana.view.scroll_home(animate=False)
        await ana.sees("older lines are not shown any more")
