"""The logs of a run, read once: what was sent in which view, and what each member got of it.

Every oracle reads the same history, so it is built once for all of them. It keeps facts only and judges nothing; what makes no
sense (a delivery of a message nobody sent, a second delivery) is left out here because exactly one oracle, `integrity` or
`no_duplication`, looks at the raw log for it. Cost: one pass over the events.

Two ideas recur. A member **answers for** the messages of the views it installed: what was sent in other views lies before its
cut, or beyond its end. A member is **current** when it lives and every living member of its last view is still in that view; one
that was left behind by the others is judged like one that crashed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from antiphon.model.ids import MemberId, MessageId, name_of
from antiphon.model.view import View
from antiphon.sim.log import Delivered, MemberLog, Received, Sent, Viewed

NOWHERE = 0
"""The place of messages sent, and the first view of members, before any view was logged."""


class Violation(Struct, frozen=True):
    """A promise that was not kept: by which member, to which messages, and what happened, in a sentence."""

    promise: str
    member: MemberId
    messages: tuple[MessageId, ...]
    why: str

    def __str__(self) -> str:
        return f"{self.promise} at {name_of(self.member)}: {self.why}"


class Life:
    """One incarnation: what it delivered, in order and each message once; when it received what; which views it went through."""

    def __init__(self, log: MemberLog) -> None:
        self.log, self.member = log, log.member
        self.delivered: list[Delivered] = []
        self.delivered_in: list[int] = []
        """The view (a place in `History.views`) in which each of `delivered` was delivered."""
        self.place: dict[MessageId, int] = {}
        """Where in `delivered` a message is."""
        self.received_at: dict[MessageId, float] = {}
        self.views: list[int] = []
        self.installed: set[int] = set()
        self.current = False

    def delivered_within(self, view: int) -> list[MessageId]:
        return [event.id for event, where in zip(self.delivered, self.delivered_in, strict=True) if where == view]


class History:
    """All lives of a run, in the order of the logs. `sent` and `view_of` are keyed by message; a view is a place in `views`."""

    def __init__(self, logs: Sequence[MemberLog]) -> None:
        self.sent: dict[MessageId, Sent] = {}
        self.view_of: dict[MessageId, int] = {}
        self.views: list[View | None] = [None]
        self._place_of: dict[View, int] = {}
        self.lives = [Life(log) for log in logs]
        for life in self.lives:
            self._read_sends(life)
        for life in self.lives:
            self._read_deliveries(life)
        self._find_current()

    def answers_for(self, life: Life, message: MessageId) -> bool:
        """Whether this member was in the view that the message was sent in."""
        return self.view_of.get(message, -1) in life.installed

    def groups(self) -> dict[int, list[Life]]:
        """The current members by their view."""
        members_by_view: dict[int, list[Life]] = {}
        for life in self.lives:
            if life.current:
                members_by_view.setdefault(life.views[-1], []).append(life)
        return members_by_view

    def _read_sends(self, life: Life) -> None:
        events = life.log.events
        view = NOWHERE
        if not events or type(events[0]) is not Viewed:
            life.views.append(NOWHERE)
        for event in events:
            if type(event) is Viewed:
                view = self._place_of.setdefault(event.view, len(self.views))
                if view == len(self.views):
                    self.views.append(event.view)
                life.views.append(view)
            elif type(event) is Sent and event.id.sender == life.member and event.id not in self.sent:
                self.sent[event.id] = event
                self.view_of[event.id] = view
        life.installed = set(life.views)

    def _read_deliveries(self, life: Life) -> None:
        view = NOWHERE
        for event in life.log.events:
            if type(event) is Delivered:
                if event.id in self.sent and event.id not in life.place:
                    life.place[event.id] = len(life.delivered)
                    life.delivered.append(event)
                    life.delivered_in.append(view)
            elif type(event) is Received:
                life.received_at.setdefault(event.id, event.at)
            elif type(event) is Viewed:
                view = self._place_of[event.view]

    def _find_current(self) -> None:
        last_view = {life.member: life.views[-1] for life in self.lives if life.log.crashed_at is None}
        for life in self.lives:
            if life.log.crashed_at is None:
                view = self.views[life.views[-1]]
                peers = view.members if view is not None else tuple(last_view)
                life.current = all(last_view.get(peer, life.views[-1]) == life.views[-1] for peer in peers)


Logs: TypeAlias = Sequence[MemberLog] | History
"""What an oracle takes: the logs, or a history of them that was read before."""


def history_of(logs: Logs) -> History:
    return logs if isinstance(logs, History) else History(logs)


class Reach:
    """How far one member has got in each sender's messages: the question that FIFO and causal order ask.

    `first_missing` looks for the first of a sender's messages up to a number that the member answers for and has not delivered.
    It remembers how far it looked, so a whole run costs one look at each message per member."""

    def __init__(self, history: History, life: Life) -> None:
        self._history, self._life = history, life
        self._done: set[MessageId] = set()
        self._high_by_sender: dict[MemberId, int] = {}
        self.delivered = self._done.add

    def first_missing(self, sender: MemberId, upto: int) -> MessageId | None:
        high = self._high_by_sender.get(sender, 0)
        history, life, done = self._history, self._life, self._done
        while high < upto:
            message = MessageId(sender, high + 1)
            if message not in done and history.answers_for(life, message):
                self._high_by_sender[sender] = high
                return message
            high += 1
        self._high_by_sender[sender] = high
        return None
