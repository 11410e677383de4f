"""The contract of the stages, and what they are given.

An endpoint has two stages, chosen by name when the group is created. **Multicast** moves frames and repairs them; it hands each
message up exactly once, in any order, as `ordering.accept(batch, low, high)`. **Ordering** decides when messages are delivered;
it says so with `context.deliver((batch, low, high))`, for any sub-range.

A stage never opens a socket, reads a clock, sleeps or draws a random number of its own: all of that is in its `Context`. What it
keeps is bounded, and what happens at the bound is written in its docstring. Releasing held work is a loop, never recursion.

An ordering of your own is a subclass of `Ordering` in one file, and one line: `antiphon.protocol.registry.ORDERS["mine"] = Mine`
(see `docs/write-an-ordering.md`).
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from antiphon.model.events import Event, Why
from antiphon.model.frames import Batch, Record, Stamp
from antiphon.model.ids import GroupId, MemberId, MessageId
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.recording import Waiting
from antiphon.model.view import View
from antiphon.protocol.outbox import Outbox
from antiphon.protocol.timers import Timers

if TYPE_CHECKING:
    from antiphon.protocol.multicast.multicast import Multicast

OnAccept: TypeAlias = Callable[[Batch, int, int], None]
"""Somebody who takes messages `low … high` of a batch."""
CLOCK_LIMIT_S = 3_600.0
"""How far ahead of its own clock a member believes another's."""
CLOCK_STEP_S = 1e-6
"""By how much a message is later than what its sender had received."""


class Context:
    """Everything a stage may know and use. The endpoint keeps `now` and `view` current before it calls a stage."""

    def __init__(
        self,
        me: MemberId,
        group: GroupId,
        view: View,
        options: GroupOptions,
        settings: Settings,
        rng: random.Random,
        now: float = 0.0,
        cut: dict[MemberId, int] | None = None,
    ) -> None:
        self.me, self.group, self.view = me, group, view
        self.options, self.settings = options, settings
        self.rng, self.now = rng, now
        self.cut = cut or {}
        """Up to which number each sender's messages lie before a newcomer's time."""
        self.flushing = False
        """Whether a view change is under way: nothing new is sent, and what survivors give each other must be taken."""
        self.latest = float("-inf")
        """The latest `sent_at` that was received or used: with the clock it makes every message later than all its sender knew of."""
        self.timers, self.outbox = Timers(), Outbox()
        self.drops: Counter[str] = Counter()
        """Everything that was dropped, by reason."""
        self.deliver: Callable[[Event], None] = self.outbox.events.append
        """Hands an event to the application, normally the tuple `(batch, low, high)`."""
        self.close_batch: Callable[[], None] = lambda: None
        """Closes the open batch of this member, if it holds anything."""
        self.multicast: Multicast

    def call_in(self, seconds: float, callback: Callable[[], None]) -> None:
        self.timers.at(self.now + seconds, callback)

    def record(self, count: int, body: Stamp) -> None:
        """Sends the next `count` numbers of this member's record stream; it reaches every `accept_record`, this one too."""
        self.multicast.cast_record(count, body)

    def record_room(self) -> int:
        """How many numbers of its record stream this member may send before the slowest member has taken some."""
        return self.multicast.record_room()

    def want(self, ids: Iterable[MessageId]) -> None:
        """Asks for messages that must exist although nothing of them was seen here."""
        self.multicast.want(ids)


class Ordering(ABC):
    """Delivers everything it accepts, sooner or later, as far as its promise allows; keeps what must wait, bounded."""

    over_besteffort: ClassVar[bool] = False
    """Whether this order can live with messages that never arrive."""
    makes_records: ClassVar[bool] = False
    """Whether it uses the record streams."""
    numbers_places: ClassVar[bool] = False
    """Whether the coordinator's record stream numbers the places of a total order, one number for each message."""
    promises: ClassVar[tuple[str, ...] | None] = None
    """Names of what this order promises beyond every group's promises (`registry.promises_of`). They are part of the group's description
    and of its trace, and select the checks of the audit. None: not declared; the order's name then stands for them, and the audit lists
    it as not judged."""
    crowded = False
    """Whether so much waits that every batch must be asked about with `refuses`."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.deliver = context.deliver

    def check(self, seqno: int, names: tuple[MessageId, ...]) -> None:
        """Called when the application submits message `seqno` naming `names`; raises UnknownParent to refuse it."""

    def stamp(self, first: int, last: int) -> Stamp:
        """What the batch `first … last` of this member carries; None for nothing. Taken when the batch closes."""
        return None

    def stamp_bytes(self) -> int:
        """An upper bound for the encoded size of the next stamp."""
        return 0

    def refuses(self, batch: Batch) -> str | None:
        """The reason (a counter's name) for not taking a received batch; None to take it. Asked about every batch that has a stamp or
        parents, and about all while `crowded`. A refused batch counts as not received: it is asked for again, and its sender slows
        down. Never refuse for want of room what something here waits for, nor while `context.flushing`."""
        return None if batch.stamp is None else "unexpected_stamp"

    @abstractmethod
    def accept(self, batch: Batch, low: int, high: int) -> None:
        """Takes messages `low … high` of `batch`, none of which was accepted before."""

    def accept_record(self, record: Record) -> None:
        """Takes a record. Records of one sender come in the order of their numbers."""
        self.context.drops["unexpected_record"] += 1

    def flush(self) -> None:
        """Called at the end of every turn, before the outbox is drained, and when an own batch has left at its beginning."""

    def own_delivered(self) -> int | None:
        """Up to which number this member's own messages are delivered; None where that happens as they are sent. They count
        against the window until then, so that what waits for more than its arrival cannot pile up."""
        return None

    def first_own_waiting(self) -> int | None:
        """Return the lowest own number that was accepted and waits for a message that it names; None if there is none."""
        return None

    def know(self, sender: MemberId, low: int, high: int) -> None:
        """Messages `low … high` of `sender`, of this view or not, were delivered past this ordering, by synchronisation."""

    def on_view(self, view: View, previous: View, starts: dict[MemberId, int]) -> None:
        """A new view: `context.view` is `view` already. Every survivor has accepted the same messages of the old one. For each
        sender in `starts`, messages up to `starts[sender]` count as delivered and the next is the one after it, whatever came here before;
        others go on where they are, and who is new begins with 1."""

    def why(self, message: MessageId) -> Why | None:
        """Why an accepted message is held; None when it is not held here."""
        return None

    def waits(self, batch: Batch, low: int, high: int) -> Iterable[Waiting]:
        """What of these accepted messages is held for messages that can be named, and for which; for traces. An order with many messages
        on hold answers this faster than by asking for each."""
        for seqno in range(low, high + 1):
            why = self.why(MessageId(batch.sender, seqno))
            if why is not None and why.waits_for:
                yield seqno, seqno, why.waits_for

    @property
    def held(self) -> int:
        """How many accepted messages wait."""
        return 0

    def held_heads(self) -> list[MessageId]:
        """The first message of each sender that is held and cannot be given up by this order itself."""
        return []

    def state(self) -> dict[str, object]:
        """The inside, for debuggers and people: plain values only."""
        return {"held": self.held}
