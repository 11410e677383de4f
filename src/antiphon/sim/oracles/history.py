"""The logs of a run, read once: what was sent in which view, and what each member got of it.

Every oracle reads the same history, so it is built once for all of them. It keeps facts only and judges nothing; what makes no
sense (a delivery of a message nobody sent, a second delivery) is left out here because exactly one oracle, `integrity` or
`no_duplication`, looks at the raw log for it. Cost: one pass over the events.

Three ideas recur. A member is **current** when it lives, has not left, and every such member of its last view is still in that view; one
that was left behind by the others is judged like one that crashed. A **company** are those who went together from one view to the next.
And a member **answers for** messages. Where views are given, for those of the views it installed: what was sent in other views lies
before its cut, or beyond its end. Where a membership makes the views, members catch up with each other, so it answers for everything but
what it was told is lost or was given as a state, and what was sent before its first view and never came: a newcomer's past is a cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

from msgspec import Struct

from antiphon.model.control import Wants
from antiphon.model.ids import MemberId, MessageId, name_of
from antiphon.model.ranges import Ranges
from antiphon.model.view import View
from antiphon.sim.log import Adopted, Delivered, MemberLog, Missed, Received, Sent, Viewed

NOWHERE = 0
"""The place of messages sent, and the first view of members, before any view was logged."""
_NONE = Ranges()


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
        self.viewed: list[Viewed] = [event for event in log.events if type(event) is Viewed]
        self.installed: set[int] = set()
        self.missed: dict[MemberId, Ranges] = {}
        """What the application was told is lost, by sender."""
        self.adopted: dict[MemberId, Ranges] = {}
        """What is in a state that it was given, by sender."""
        self.current = False
        for event in log.events:
            if isinstance(event, Missed | Adopted):
                ranges_by_sender, told = (self.missed, event.lost) if isinstance(event, Missed) else (self.adopted, event.have)
                for sender, flat in told.items():
                    for low, high in zip(flat[::2], flat[1::2], strict=False):
                        ranges_by_sender.setdefault(sender, Ranges()).add(low, high)

    @property
    def stayed(self) -> bool:
        """Whether it lives and has not left."""
        return self.log.crashed_at is None and self.log.departed_at is None

    def stable_within(self, view: int) -> list[MessageId]:
        """The deliveries in a view up to the last position at which the message and, in total order, its record were stable."""
        messages, stable = self.delivered_within(view), self.log.stable
        ordered = max(self.log.stable_records.values(), default=0)
        for count, message in enumerate(messages):
            if count == ordered or message.seqno > stable.get(message.sender, 0):
                return messages[:count]
        return messages

    def delivered_within(self, view: int) -> list[MessageId]:
        """What it delivered in a view, apart from what it caught up with there."""
        return [event.id for event, where in zip(self.delivered, self.delivered_in, strict=True) if where == view and not event.recovered]

    def adopts(self, message: MessageId) -> bool:
        """Whether a state stands for this message here."""
        return message.seqno in self.adopted.get(message.sender, _NONE)

    def told(self, message: MessageId) -> bool:
        """Whether the application was told that it is lost, or given as a state."""
        return self.adopts(message) or message.seqno in self.missed.get(message.sender, _NONE)

    def side_in(self, step: int) -> tuple[MemberId, ...]:
        """With whom it came into `views[step]`; empty where the log does not say."""
        sides = self.viewed[step - len(self.views)].sides
        return next((side for side in sides if self.member in side), ())


class Company(Struct, frozen=True):
    """Those who were in view `old` and went together to `new` (None: the current members, who are in it still). `side` are all who
    should have, also those that died on the way."""

    old: int
    new: int | None
    side: tuple[MemberId, ...]
    lives: list[Life]


class History:
    """All lives of a run, in the order of the logs. `sent` and `view_of` are keyed by message; a view is a place in `views`.

    `wants` is None where the views were given. Otherwise a membership made them, and it says what members wanted of the time before
    they came; who is not in it wanted all."""

    def __init__(self, logs: Sequence[MemberLog], wants: Mapping[MemberId, Wants] | None = None) -> None:
        self.sent: dict[MessageId, Sent] = {}
        self.view_of: dict[MessageId, int] = {}
        self.views: list[View | None] = [None]
        self.wants = wants
        self._place_of: dict[View, int] = {}
        self._place_by_id: dict[int, int] = {}
        self._parents: dict[int, set[int]] = {}
        self._ancestors: dict[int, frozenset[int]] = {}
        self.lives = [Life(log) for log in logs]
        self._life_by_member = {life.member: life for life in self.lives}
        for life in self.lives:
            self._read_sends(life)
        for life in self.lives:
            self._read_deliveries(life)
        self._find_current()

    @property
    def given(self) -> bool:
        """Whether the views were given, so that nobody catches up with what was sent in others."""
        return self.wants is None

    def answers_for(self, life: Life, message: MessageId) -> bool:
        """Whether what this member delivers may depend on this message only if it has delivered it."""
        if self.given:
            return self.view_of.get(message, -1) in life.installed
        return message in life.place or (message in self.sent and not life.told(message) and not self.before(life, message))

    def owes(self, life: Life, message: MessageId) -> bool:
        """Whether this member, being current, must have this message that another current one has."""
        if self.given:
            return self.answers_for(life, message)
        return not life.told(message) and (self.wants_all(life) or not self.before(life, message))

    def before(self, life: Life, message: MessageId) -> bool:
        """Whether the message was sent in an earlier view than the member's first: on its own side, or, while nobody knew of it here, on
        another one."""
        sent, first = self.views[self.view_of.get(message, NOWHERE)], self.views[life.views[0]]
        return sent is not None and first is not None and sent.id < first.id

    def wants_all(self, life: Life) -> bool:
        return (self.wants or {}).get(life.member, Wants()).kind == "all"

    def ancestors(self, view: int) -> frozenset[int]:
        """The views that a view grew from, directly or not."""
        known = self._ancestors.get(view)
        if known is None:
            found: set[int] = set()
            ahead = list(self._parents.get(view, ()))
            while ahead:
                parent = ahead.pop()
                if parent not in found:
                    found.add(parent)
                    ahead += self._parents.get(parent, ())
            known = self._ancestors[view] = frozenset(found)
        return known

    def groups(self) -> dict[int, list[Life]]:
        """The current members by their view."""
        members_by_view: dict[int, list[Life]] = {}
        for life in self.lives:
            if life.current:
                members_by_view.setdefault(life.views[-1], []).append(life)
        return members_by_view

    @cached_property
    def companies(self) -> list[Company]:
        """Who went together from which view to which; last, who is still in its view."""
        found: dict[tuple[int, int, tuple[MemberId, ...]], Company] = {}
        for life in self.lives:
            for step, (old, new) in enumerate(zip(life.views, life.views[1:], strict=False), 1):
                side = life.side_in(step)
                found.setdefault((old, new, side), Company(old, new, side, [])).lives.append(life)
        remaining = [Company(view, None, tuple(life.member for life in lives), lives) for view, lives in self.groups().items()]
        return [*found.values(), *remaining]

    def _read_sends(self, life: Life) -> None:
        events = life.log.events
        view = NOWHERE
        # Where a membership makes the views, an application may send before it has read of its first one.
        if not events or (type(events[0]) is not Viewed and (self.given or not any(type(event) is Viewed for event in events))):
            life.views.append(NOWHERE)
        for event in events:
            if type(event) is Viewed:
                view = self._place_of.setdefault(event.view, len(self.views))
                if view == len(self.views):
                    self.views.append(event.view)
                    self._place_by_id.setdefault(event.view.id, view)
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
                    if not self.given:
                        # A message may be accepted in one view and leave in the next: it belongs to the one it left in.
                        self.view_of[event.id] = self._place_by_id.get(event.view, self.view_of[event.id])
            elif type(event) is Received:
                life.received_at.setdefault(event.id, event.at)
            elif type(event) is Viewed:
                view = self._place_of[event.view]
                self._parents.setdefault(view, set()).update(self._origins(event))

    def _origins(self, event: Viewed) -> list[int]:
        """The views that those came from who are in the sides of a view: also of who left with it, or died before it had installed it."""
        origins = [event.previous]
        for member in (member for side in event.sides for member in side):
            life = self._life_by_member.get(member)
            earlier = [other.view.id for other in life.viewed if other.view.id < event.view.id] if life is not None else []
            origins += earlier[-1:]
        return [self._place_by_id[origin] for origin in origins if origin in self._place_by_id]

    def _find_current(self) -> None:
        last_view = {life.member: life.views[-1] for life in self.lives if life.stayed}
        for life in self.lives:
            if life.stayed:
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
