"""A group that this node is in, as a conversation: reads the group, keeps the tree, says lines.

Whoever shows the room is told what changed, batch by batch. Reading lets others run after every `_AT_ONCE` lines, so that a long past does
not freeze a screen. Keeps a conversation, and the own lines that are accepted and have not come back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from antiphon.api import BadPayload, Group, Letter, Message, MessageBatch, ViewChange
from antiphon.apps.chat import sentences
from antiphon.apps.chat.conversation import Conversation
from antiphon.apps.chat.entries import Line, Placement
from antiphon.apps.chat.harmless import harmless
from antiphon.apps.chat.line import ChatLine, written
from antiphon.errors import NotInGroup
from antiphon.model.events import MissedMessages, NoMajority, Synchronised, Why
from antiphon.model.ids import GroupId, MemberId, MessageId

NAME_SHOWN = 24
"""Characters of a name that are shown."""
_SHOWN_BYTES = 200
_AT_ONCE = 64
_SEND_S = 30.0
_WAITING = 5

Tell: TypeAlias = Callable[["Room", Sequence[Placement]], None]
"""Told of what has come, in its order; with nothing when the room has ended, or only its members or counters have changed."""


class Room:
    def __init__(self, group: Group, now: Callable[[], float], tell: Tell) -> None:
        self.group, self._now, self._tell = group, now, tell
        self.conversation = Conversation(group.me)
        self.open = True
        """Whether this node is in the group."""
        self.caught_up = False
        self.stopped = False
        """Whether this side of a partition may not go on."""
        self._unconfirmed: dict[MessageId, None] = {}
        self._all_confirmed = asyncio.Event()
        self._meet(group.view.members)
        self._reading = asyncio.create_task(self._read(), name=f"chat reads {group.name}")

    @property
    def id(self) -> GroupId:
        return self.group.id

    @property
    def name(self) -> str:
        return harmless(self.group.name, NAME_SHOWN)

    @property
    def members(self) -> tuple[MemberId, ...]:
        return self.group.view.members

    def out_of_reach(self) -> list[MemberId]:
        """Members that did not leave and cannot be heard."""
        absent: Any = self.group.stats()["absent"]
        return list(absent)

    def call(self, member: MemberId) -> str:
        """The name to show for a member."""
        return harmless(self.conversation.names.call(member), NAME_SHOWN)

    # -- saying ----------------------------------------------------------------------------------------------------------------

    async def say(self, text: str, answers: MessageId | None = None) -> MessageId:
        """Sends a line; returns when it is accepted. Raises Unsayable, or what `Group.send` does."""
        said = await self.group.send(written(text, self._now()), reply_to=answers, timeout=_SEND_S)
        if said not in self.conversation:
            self._unconfirmed[said] = None
        return said

    async def confirmed(self, timeout: float) -> bool:
        """Waits until the own lines have come back from the group; whether they have."""
        try:
            async with asyncio.timeout(timeout):
                while self._unconfirmed and self.open:
                    self._all_confirmed.clear()
                    await self._all_confirmed.wait()
        except TimeoutError:
            return False
        return self.open

    async def leave(self) -> None:
        await self.group.leave(timeout=_SEND_S)

    def check(self) -> None:
        """Raises what went wrong with reading, if anything did."""
        if self._reading.done() and not self._reading.cancelled():
            self._reading.result()

    async def close(self) -> None:
        """Stops reading."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    # -- reading ---------------------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        since_pause = 0
        async for event in self.group.events():
            placements = self._take(event)
            self._tell(self, placements)
            since_pause += len(placements)
            if since_pause >= _AT_ONCE:
                since_pause = 0
                await asyncio.sleep(0)
        self.open = False
        self._all_confirmed.set()
        self._tell(self, [self._note(f"You are no longer in {self.name}: {self._reason()}.", "warning")])

    def _take(self, event: object) -> list[Placement]:
        if isinstance(event, MessageBatch):
            placed = [self._place(message) for message in event]
            return [placement for placement in placed if placement is not None]
        if isinstance(event, ViewChange):
            self.stopped = False
            if event.previous is None and len(event.view.members) == 1:
                self.caught_up = True  # a founder: there is no past
            self._meet(event.view.members)
            told = sentences.change(event, self.group.me, self.out_of_reach(), self.call)
            return [self._note(text, kind) for kind, text in told]
        if isinstance(event, Synchronised):
            self.caught_up = True
        elif isinstance(event, NoMajority):
            self.stopped = True
            return [self._note("Too few are on this side to go on: what you write waits until the others are back.", "warning")]
        elif isinstance(event, MissedMessages):
            count = sum(high - low + 1 for low, high in _ranges(event))
            return [self._note(f"{count:,} line{'s are' if count != 1 else ' is'} lost: nobody keeps them any more.", "warning")]
        return []

    def _place(self, message: Message | Letter) -> Placement | None:
        if isinstance(message, Letter):
            return self._note(f"{self.call(message.sender)}, to you alone: {_text(message.data, message.raw)}", "private")
        if self._unconfirmed:
            self._unconfirmed.pop(message.id, None)
            if not self._unconfirmed:
                self._all_confirmed.set()
        data, answers = message.data, message.reply_to
        line = Line(
            message.id,
            _text(data, message.raw),
            message.sent_at,
            at=data.at if isinstance(data, ChatLine) else None,
            author=message.sender,
            answers=answers,
            lost=answers in message.lost,
            late=message.recovered and self.caught_up,
            readable=isinstance(data, ChatLine),
        )
        return self.conversation.add(line, read=not self.caught_up)

    def _note(self, text: str, kind: str) -> Placement:
        return self.conversation.note(text, kind, self._now())

    def _meet(self, members: Sequence[MemberId]) -> None:
        for member in members:
            self.conversation.names.meet(member)

    def _reason(self) -> str:
        try:
            self.group.try_send(ChatLine("", 0.0))
        except NotInGroup as error:
            return harmless(error.why)
        return "it has ended"

    # -- questions -------------------------------------------------------------------------------------------------------------

    def held(self) -> int:
        """How many lines are here and wait for others."""
        held: Any = self.group.stats().get("held", 0)
        return int(held)

    def waiting(self) -> list[tuple[MessageId, Why]]:
        """Lines that wait, or are known and not here, and why; the first few. Own lines that nobody confirmed come first."""
        if not self.open:
            return []
        candidates = list(self._unconfirmed)
        stats: Any = self.group.stats()
        for member, delivered in stats.get("delivered_by_sender", {}).items():
            for number in _after(delivered):
                candidates.append(MessageId(member, number))
        found: list[tuple[MessageId, Why]] = []
        for message in dict.fromkeys(candidates):
            why = self.group.why(message)
            if why.state in ("held", "missing"):
                found.append((message, why))
            if len(found) == _WAITING:
                break
        return found


def _text(data: object, raw: bytes) -> str:
    if isinstance(data, ChatLine):
        return harmless(data.text)
    why = harmless(data.why, _SHOWN_BYTES) if isinstance(data, BadPayload) else "it is something else"
    return f"({len(raw):,} bytes that are no chat line: {why})"


def _after(delivered: Sequence[tuple[int, int]]) -> list[int]:
    """The first number in each of the first gaps between what was delivered; without a gap, the one after the last."""
    return [high + 1 for _, high in delivered[:_WAITING]] or [1]


def _ranges(gap: MissedMessages) -> list[tuple[int, int]]:
    """The ranges of all senders."""
    found: list[tuple[int, int]] = []
    for flat in gap.lost.values():
        found.extend(zip(flat[::2], flat[1::2], strict=True))
    return found
