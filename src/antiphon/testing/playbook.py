"""A playbook: what comes into an ordering, and what must come out, in the order it happens.

    >>> from antiphon.testing import batch, delivers, got, holds, nothing, play
    >>> b1, b2 = batch("B", 1), batch("B", 2)
    >>> _ = play("fifo") >> got(b2) << nothing() << holds(1) >> got(b1) << delivers(b1, b2)

`>>` puts something in; `<<` says what must have come out since. Each input is a turn of its own. The ordering is the real one, an
order's name or a class of your own; beneath it is a multicast that remembers what it is asked for and sends records back to the
ordering. When an expectation fails, the error tells the whole story up to there.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, cast

from antiphon.errors import UnknownParent
from antiphon.model.events import Event, Orphaned
from antiphon.model.frames import Batch, Record, Stamp
from antiphon.model.ids import MemberId, MessageId
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import View
from antiphon.protocol.multicast.reliable import Reliable
from antiphon.protocol.registry import ORDERS
from antiphon.protocol.stage import Context, Ordering
from antiphon.testing.batches import GROUP, Message, batch, message


class Input(NamedTuple):
    """Something that happens to an ordering."""

    told: str
    happen: Callable[[Playbook], None]


class Expectation(NamedTuple):
    """Something that must be so: what was expected, and how to look what there is instead."""

    told: str
    expected: object
    actual: Callable[[Playbook], object]


class Playbook:
    """One ordering, the turn it is in, and the story so far. Made by `play`."""

    def __init__(self, ordering: type[Ordering], me: str, members: Sequence[str], settings: Settings | None, repairs: bool) -> None:
        view = View(1, tuple(MemberId(name) for name in members))
        self.context = Context(MemberId(me), GROUP, view, GroupOptions(), settings or Settings(), random.Random("playbook"))
        self.context.multicast = cast(Reliable, _Floor(self, repairs))
        self.ordering = ordering(self.context)
        self.records: list[Stamp] = []
        self.wanted: list[MessageId] = []
        self.refused: list[str] = []
        self.events: list[Event] = []
        self.sent = 0
        self._story: list[str] = []

    def __rshift__(self, step: Input) -> Playbook:
        self._story.append(f">> {step.told}")
        for memory in (self.records, self.wanted, self.refused):
            memory.clear()
        step.happen(self)
        self.ordering.flush()
        self.events = self.context.outbox.drain().events
        return self

    def __lshift__(self, expectation: Expectation) -> Playbook:
        self._story.append(f"<< {expectation.told}")
        actual = expectation.actual(self)
        if actual != expectation.expected:
            story = "\n    ".join(self._story)
            raise AssertionError(f"the story went otherwise:\n    {story}\n  expected {expectation.expected}\n  but was  {actual}")
        return self

    def delivered(self) -> list[str]:
        """What was delivered in this turn, in short form, lost parents and all."""
        told: list[str] = []
        for event in self.events:
            if type(event) is tuple:
                told += [f"{event[0].sender}{seqno}" for seqno in range(event[1], event[2] + 1)]
            elif type(event) is Orphaned:
                told.append(f"{event.batch.sender}{event.seqno} without {' '.join(_short(name) for name in event.missing)}")
        return told


def play(
    ordering: str | type[Ordering], me: str = "A", members: Sequence[str] = "ABCD", settings: Settings | None = None, repairs: bool = True
) -> Playbook:
    """Opens a playbook for an ordering at member `me` of a view of `members`. `repairs`: whether what is missing can be asked for."""
    return Playbook(ORDERS[ordering] if isinstance(ordering, str) else ordering, me, members, settings, repairs)


# -- what comes in -----------------------------------------------------------------------------------------------------------------


def got(frame: Batch | Record, low: int | None = None, high: int | None = None) -> Input:
    """A batch (or messages `low … high` of it), or a record, comes from the multicast."""

    def happen(book: Playbook) -> None:
        if isinstance(frame, Record):
            book.ordering.accept_record(frame)
            return
        reason = book.ordering.refuses(frame)
        if reason is not None:
            book.refused.append(reason)
        else:
            book.ordering.accept(frame, low or frame.first, high or frame.last)

    if isinstance(frame, Record):
        return Input(f"got record {frame.sender}{frame.first}…{frame.last} {frame.body!r}", happen)
    return Input(f"got {_range(frame, low, high)}", happen)


def sends(payload: bytes = b"", reply_to: Message | None = None, after: Iterable[Message] = ()) -> Input:
    """The application at this member sends its next message, a batch of its own; one that is refused counts as `UnknownParent`."""
    parent = None if reply_to is None else message(reply_to)
    also = [message(name) for name in after]

    def happen(book: Playbook) -> None:
        seqno = book.sent + 1
        try:
            book.ordering.check(seqno, (*also,) if parent is None else (parent, *also))
        except UnknownParent:
            book.refused.append("UnknownParent")
            return
        book.sent = seqno
        own = batch(
            book.context.me,
            seqno,
            payload,
            parents=None if parent is None else [parent],
            after={seqno: also} if also else None,
            stamp=book.ordering.stamp(seqno, seqno),
            view=book.context.view.id,
        )
        book.ordering.accept(own, seqno, seqno)

    return Input(f"sends {payload!r}" + (f" in answer to {_short(parent)}" if parent else ""), happen)


def waits(seconds: float) -> Input:
    """Time passes, and the timers that are due run."""

    def happen(book: Playbook) -> None:
        end = book.context.now + seconds
        while (deadline := book.context.timers.deadline) is not None and deadline <= end:
            book.context.now = max(deadline, book.context.now)
            book.context.timers.run(deadline)
        book.context.now = end

    return Input(f"waits {seconds} s", happen)


def view(*members: str, cut: dict[str, int] | None = None) -> Input:
    """The next view, of these members, is installed; of newcomers, messages up to `cut[name]` lie before this member's time."""

    def happen(book: Playbook) -> None:
        previous = book.context.view
        book.context.view = new = View(previous.id + 1, tuple(MemberId(name) for name in members))
        book.ordering.on_view(new, previous, {MemberId(name): number for name, number in (cut or {}).items()})

    return Input(f"view {' '.join(members)}", happen)


# -- what must come out ------------------------------------------------------------------------------------------------------------


def delivers(*what: Batch | Message) -> Expectation:
    """Exactly these messages were delivered in this turn, in this order. A batch stands for all its messages."""
    expected = [short for item in what for short in (_all(item) if isinstance(item, Batch) else [_short(message(item))])]
    return Expectation(f"delivers {' '.join(expected)}", expected, Playbook.delivered)


def nothing() -> Expectation:
    """Nothing was delivered in this turn, and no record sent."""
    return Expectation("nothing", [], lambda book: [*book.delivered(), *book.records])


def orphans(short: Message, *lost: Message) -> Expectation:
    """Exactly this message was delivered, and told that those are lost."""
    expected = f"{_short(message(short))} without {' '.join(_short(message(name)) for name in lost)}"
    return Expectation(f"orphans {expected}", [expected], Playbook.delivered)


def holds(count: int) -> Expectation:
    """So many messages wait."""
    return Expectation(f"holds {count}", count, lambda book: book.ordering.held)


def records(*bodies: Stamp) -> Expectation:
    """Exactly these records were sent in this turn."""
    return Expectation(f"records {bodies}", list(bodies), lambda book: list(book.records))


def asks(*messages: Message) -> Expectation:
    """Exactly these messages were asked for in this turn."""
    return Expectation(f"asks for {messages}", [message(short) for short in messages], lambda book: list(book.wanted))


def refuses(reason: str) -> Expectation:
    """The input was not taken, for this reason."""
    return Expectation(f"refuses: {reason}", [reason], lambda book: list(book.refused))


def drops(reason: str, count: int = 1) -> Expectation:
    """So many messages were dropped for this reason since the beginning."""
    return Expectation(f"drops {count}: {reason}", count, lambda book: book.context.drops[reason])


class _Floor:
    """What lies beneath the ordering: remembers what it is asked for; records come straight back, as a sequencer's own do."""

    def __init__(self, book: Playbook, repairs: bool) -> None:
        self._book, self._repairs = book, repairs
        self._last = 0
        self.held = None

    def cast_record(self, count: int, body: Stamp) -> None:
        book, first = self._book, self._last + 1
        self._last += count
        book.records.append(body)
        book.ordering.accept_record(Record(GROUP, book.context.me, book.context.view.id, first, self._last, body))

    def record_room(self) -> int:
        return self._book.context.options.window * len(self._book.context.view.members)

    def want(self, ids: Iterable[MessageId]) -> None:
        self._book.wanted += ids

    def repairs(self) -> bool:
        return self._repairs

    def disproves(self, child: MessageId, parent: MessageId) -> bool:
        return False


def _short(name: MessageId) -> str:
    return f"{name.sender}{name.seqno}"


def _all(frame: Batch) -> list[str]:
    return [f"{frame.sender}{seqno}" for seqno in range(frame.first, frame.last + 1)]


def _range(frame: Batch, low: int | None, high: int | None) -> str:
    first, last = low or frame.first, high or frame.last
    names = [" and ".join(_short(name) for name in frame.follows(seqno)) for seqno in range(first, last + 1)]
    answers = f" answering {', '.join(name or 'nothing' for name in names)}" if any(names) else ""
    return f"{frame.sender}{first}" + (f"…{last}" if last > first else "") + answers
