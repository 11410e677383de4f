"""A conversation spoken in a world: every line is sent by the member that speaks for its author, at its time.

A person answers what they have read, and a replay that is faster than the people were asks for answers to what has not arrived
yet. There are two ways out. `postpone`: the line is sent as soon as its parents have been delivered at its author's member, and
what the same member has to say later queues up behind it; a fast replay then falls behind its times, in slow orders more than in
quick ones. `unlink`: the line is sent at its time and names only what was read; then every line leaves at the same moment in every
order. Either way each member sends the same lines under the same numbers in every order, and a keyed network treats them alike.

Keeps: per member the lines that are due and not sent, and the ids of the lines delivered there; both bounded by the conversation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial

from antiphon.errors import InvalidOption, WouldBlock
from antiphon.model.ids import MessageId
from antiphon.sim.conversation import Conversation
from antiphon.sim.view_world import ViewWorld

UNREAD = ("postpone", "unlink")
"""What may become of an answer that is due before its author has read what it answers."""


class Replay:
    """Schedules the lines when it is made; afterwards the world only has to run until `left` is 0."""

    def __init__(self, world: ViewWorld, conversation: Conversation, due: Sequence[float], unread: str = "postpone") -> None:
        """Line i is due at virtual time `due[i]`; the times do not decrease. `unread` chooses between the two ways above."""
        if unread not in UNREAD:
            raise InvalidOption("unread", unread, f"choose one of {', '.join(UNREAD)}")
        self._world, self._due = world, due
        self._postpones = unread == "postpone"
        self._lines = conversation.lines
        seats = conversation.seats(len(world.names))
        self._waiting_by_member: dict[str, deque[int]] = {name: deque() for name in world.names}
        self._delivered_by_member: dict[str, set[str]] = {name: set() for name in world.names}
        self._line_by_message: dict[MessageId, str] = {}
        self._message_by_line: dict[str, MessageId] = {}
        self.postponed_s: list[float] = []
        """By how much each postponed line was late."""
        self.unlinked = 0
        """How many links were left out because the answered line had not been read."""
        self.last_sent_at = 0.0
        for name in world.names:
            world.on_deliver(name, partial(self._on_deliver, name))
            world.on_writable(name, partial(self._speak, name))
        for place, line in enumerate(self._lines):
            world.at(due[place], partial(self._on_due, world.names[seats[line.author]], place))

    @property
    def sent(self) -> int:
        return len(self._message_by_line)

    @property
    def left(self) -> int:
        """How many lines have not been sent."""
        return len(self._lines) - len(self._message_by_line)

    def message(self, line: str) -> MessageId:
        """The message in which the line with this id was sent."""
        return self._message_by_line[line]

    def _on_due(self, name: str, place: int) -> None:
        self._waiting_by_member[name].append(place)
        self._speak(name)

    def _on_deliver(self, name: str, message: MessageId, payload: bytes, reply_to: MessageId | None) -> None:
        self._delivered_by_member[name].add(self._line_by_message[message])
        self._speak(name)

    def _speak(self, name: str) -> None:
        """Sends what the member can say now, in the order of the conversation."""
        waiting, delivered = self._waiting_by_member[name], self._delivered_by_member[name]
        while waiting:
            place = waiting[0]
            line = self._lines[place]
            if self._postpones and not delivered.issuperset(line.parents):
                return
            parents = [self._message_by_line[parent] for parent in line.parents if parent in delivered]
            try:
                message = self._world.send(name, line.text.encode(), parents[0] if parents else None, parents[1:])
            except WouldBlock:
                return  # on_writable comes back here
            waiting.popleft()
            self.unlinked += len(line.parents) - len(parents)
            self.last_sent_at = self._world.now
            self._line_by_message[message] = line.id
            self._message_by_line[line.id] = message
            if self._world.now > self._due[place]:
                self.postponed_s.append(self._world.now - self._due[place])
