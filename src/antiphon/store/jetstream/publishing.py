"""Writing to topics: who may, the numbers, and what becomes of a write whose acknowledgement was lost.

Every write is the same loop: look at the topic's tail, decide, write one batch on condition that the tail is still there. Where the
condition fails somebody else was faster, where no answer comes it may have happened: in both cases look again and decide anew, which finds
a repeat, a takeover or a free way. The loop is bounded by the time of the call; its pauses are random, and who fails several times claims
its turn, so that of many writers all get by.

**Times.** A value's time is the server's stamp or the bound in its header, whichever is later. The bound is a time that has certainly come,
and not before any time that the value before may have: so times never fall with numbers, whatever a new leader's clock says.

Costs one message per value and one round trip per batch; in mutable topics one message more, which says how far the topic is, and one for
the publisher where they are shared (otherwise the newest values say it). After somebody else's write it costs three more round trips.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

from antiphon.errors import Fenced, InvalidOption, StoreFull, TooLarge, TopicTaken
from antiphon.store.jetstream.clock import Clock
from antiphon.store.jetstream.codec import Holder, Pen, encode, value_header
from antiphon.store.jetstream.faults import STREAM_UNKNOWN, Mismatch, Refusal, Unanswered
from antiphon.store.jetstream.scanning import delete_all, labels, runs
from antiphon.store.jetstream.stream import BATCH_MESSAGES, ROLLUP, Condition, Message
from antiphon.store.jetstream.topic import Tail, TopicStream
from antiphon.store.records import Entry, Grant, Publication, Receipt, TopicOptions

BATCH_VALUES = BATCH_MESSAGES - 2
"""Two messages of a batch may be records."""
BATCH_BYTES = 8 << 20
_FIRST_PAUSE_S = 0.002
_RIVAL_PAUSE_S = 0.05
_CLAIMED_PAUSE_S = 0.02
"""How long one waits for somebody else's turn: what looking and writing takes, several times over."""
_PATIENCE = 3
"""So many failures in a row are borne before one claims one's turn."""

T = TypeVar("T")


class Plan(NamedTuple, Generic[T]):
    """What to write, the tail as it will be then (its place and time are filled in), and the answer."""

    messages: Sequence[Message]
    tail: Tail
    answer: T


class Publishing:
    def __init__(self, clock: Clock, value_bytes: int, batch_bytes: int, synced: bool) -> None:
        self._clock, self._value_bytes, self._batch_bytes, self._synced = clock, value_bytes, batch_bytes, synced

    async def register(self, topic: TopicStream, publisher: str, options: TopicOptions | None, takeover: bool) -> Grant:
        def decide(tail: Tail) -> Plan[Grant]:
            holder, decided = tail.holder, tail.holder.options or options or TopicOptions()
            if options not in (None, decided):
                raise InvalidOption("options", options, f"{topic.topic!r} has {decided}, and keeps them: leave them out, or say the same")
            if holder.publisher not in ("", publisher) and not takeover:
                raise TopicTaken(topic.topic, holder.publisher)
            pen = Pen(holder.epoch + 1, tail.pen.number, tail.pen.own)
            fresh = Holder(decided, "" if decided.shared else publisher, pen.epoch, pen.number, pen.own, tail.last, tail.time)
            messages = [_record(topic.subjects.holder, fresh)]
            if decided.shared:
                messages.append(_record(topic.subjects.of_publisher(publisher), pen))
            elif holder.publisher not in ("", publisher):
                messages.insert(0, _record(topic.subjects.of_publisher(holder.publisher), _put_down(tail.held)))
            grant = Grant(topic.topic, publisher, pen.epoch, pen.number, tail.last)
            return Plan(messages, tail._replace(holder=fresh, held=pen, pen=pen), grant)

        try:
            return await self._write(topic, publisher, decide)
        except Refusal as refusal:
            if refusal.code != STREAM_UNKNOWN:
                raise
        await topic.make()
        return await self._write(topic, publisher, decide)

    async def release(self, topic: TopicStream, grant: Grant) -> None:
        def decide(tail: Tail) -> Plan[None]:
            if not _holds(grant, tail):
                return Plan((), tail, None)
            nobody = Holder(tail.holder.options, "", tail.holder.epoch, 0, 0, tail.last, tail.time)
            pen = _record(topic.subjects.of_publisher(grant.publisher), _put_down(tail.pen))
            return Plan([pen, _record(topic.subjects.holder, nobody)], tail, None)

        await self._write(topic, grant.publisher, decide)
        topic.tails.pop(grant.publisher, None)

    async def publish(self, topic: TopicStream, grant: Grant, first: int, entries: Sequence[Entry]) -> Receipt:
        origin: list[Tail] = []

        def decide(tail: Tail) -> Plan[Receipt]:
            check(grant, tail)
            self.check_size(entries)
            origin.append(tail)
            return self._batch(topic, grant, first, entries, tail)

        try:
            return await self._write(topic, grant.publisher, decide, timed=True)
        except StoreFull:
            await self._take_back(topic, grant, origin[0])
            raise

    def check_size(self, entries: Sequence[Entry]) -> None:
        sizes = [len(entry.data) for entry in entries]
        if max(sizes, default=0) > self._value_bytes:
            raise TooLarge(max(sizes), self._value_bytes, "a value", "split it, or keep it elsewhere and publish where it is")
        if len(sizes) > BATCH_VALUES or sum(sizes) > self._batch_bytes:
            raise TooLarge(sum(sizes), self._batch_bytes, f"a batch of up to {BATCH_VALUES:,} values", "publish several batches")

    def joined(self, publications: Sequence[Publication]) -> list[Publication]:
        """The same values in fewer batches: those that go on where the one before ends, in the same topic, are one."""
        joined: list[Publication] = []
        for publication in publications:
            grant, first, entries = publication
            if joined and joined[-1].grant == grant and joined[-1].first + len(joined[-1].entries) == first:
                together = [*joined[-1].entries, *entries]
                if len(together) <= BATCH_VALUES and sum(len(entry.data) for entry in together) <= self._batch_bytes:
                    joined[-1] = joined[-1]._replace(entries=together)
                    continue
            joined.append(publication)
        return joined

    def _batch(self, topic: TopicStream, grant: Grant, first: int, entries: Sequence[Entry], tail: Tail) -> Plan[Receipt]:
        pen, options, subjects = tail.pen, tail.options, topic.subjects
        if not entries:
            return Plan((), tail, Receipt(tail.last + 1, tail.last, self._synced))
        written = max(0, min(pen.number + 1 - first, len(entries)))
        seq, last = tail.last - written + 1, tail.last + len(entries) - written
        time = max(self._clock.earliest(), tail.time)
        subject = subjects.values_of(grant.publisher) if options.shared else subjects.value
        name = grant.publisher if options.shared and options.mutable else ""
        messages: list[Message] = []
        # Of several values of one key only the last is written, as if it had replaced the others already.
        newest = {entry.key: at for at, entry in enumerate(entries)} if options.mutable else {}
        for at in range(written, len(entries)):
            data, key = entries[at]
            header = value_header(seq + at, first + at, time, key, name)
            if not options.mutable:
                messages.append(Message(subject, data, header))
            elif newest[key] == at:
                messages.append(Message(subjects.of_key(key), data, header + ROLLUP))
        receipt = Receipt(
            seq if not written else max(1, pen.own - (pen.number - first)),
            last if messages else max(1, pen.own - (pen.number - first - len(entries) + 1)),
            self._synced,
        )
        if not messages:
            return Plan((), tail, receipt)
        pen, holder = Pen(grant.epoch, first + len(entries) - 1, last), tail.holder
        if options.mutable:
            if options.shared:
                messages.append(_record(subjects.of_publisher(grant.publisher), pen))
            holder = Holder(holder.options, holder.publisher, holder.epoch, pen.number, last, last, time)
            messages.append(_record(subjects.holder, holder))
        return Plan(messages, Tail(0, last, time, holder, pen, pen), receipt)

    async def _take_back(self, topic: TopicStream, grant: Grant, before: Tail) -> None:
        """A single server that becomes full in the middle of a batch stops there, although batches should be atomic: what it has written
        of it goes again. (Not in a mutable topic, where it has replaced what was there; the repeat completes it.)"""
        options, subjects = before.options, topic.subjects
        if options.mutable:
            return
        subject = subjects.values_of(grant.publisher) if options.shared else subjects.value
        tail = await topic.tail(grant.publisher)
        if not _holds(grant, tail) or tail.pen.number <= before.pen.number:
            return
        written = await labels(topic, before.last + 1, tail.last, options, subject)
        await delete_all(topic, [place for label, place in written if label.number > before.pen.number], overwrite=False)

        def decide(tail: Tail) -> Plan[None]:
            # Its numbers are not used again, in case somebody has read it. Had the server died just now, they would be.
            check(grant, tail)
            holder = tail.holder
            last = max(tail.last, written[-1][0].seq if written else 0)
            holder = Holder(holder.options, holder.publisher, holder.epoch, tail.held.number, tail.held.own, last, tail.time)
            return Plan([_record(subjects.holder, holder)], tail._replace(last=last, holder=holder), None)

        await self._write(topic, grant.publisher, decide, vital=True)

    async def erase(self, topic: TopicStream, grant: Grant, numbers: Sequence[int]) -> int:
        wanted = sorted({number for number in numbers if number > 0})
        tail = await topic.tail(grant.publisher)
        check(grant, tail)
        floor, _ = await topic.gate()
        options, found = tail.options, list[int]()
        own = topic.subjects.values_of(grant.publisher) if options.shared and not options.mutable else topic.subjects.values(options)
        for low, high in runs([number for number in wanted if floor.floor < number <= tail.last]):
            found += [place for label, place in await labels(topic, low, high, options, own) if label.publisher in ("", grant.publisher)]
        if not found:
            return 0

        def decide(tail: Tail) -> Plan[None]:
            # The record keeps the numbers that would be forgotten with the newest value, and fails for who is fenced.
            check(grant, tail)
            holder, held = tail.holder, tail.held
            holder = Holder(holder.options, holder.publisher, holder.epoch, held.number, held.own, tail.last, tail.time)
            messages = [_record(topic.subjects.holder, holder)]
            if options.shared:
                messages.append(_record(topic.subjects.of_publisher(grant.publisher), tail.pen))
            return Plan(messages, tail._replace(holder=holder), None)

        await self._write(topic, grant.publisher, decide)
        return await delete_all(topic, found, overwrite=True)

    async def _write(
        self, topic: TopicStream, publisher: str, decide: Callable[[Tail], Plan[T]], *, timed: bool = False, vital: bool = False
    ) -> T:
        """The loop of every write. What is `timed` needs to know the time, and begins with the tail as this handle left it, which may be
        out of date: what is refused on it is looked at again."""
        connection = topic.connection
        async with topic.writing:
            deadline, pause_s, failures, heeded = connection.deadline(), _FIRST_PAUSE_S, 0, b""
            known: Tail | None = None
            if timed:
                # Within the lock: of two publishes the one that found the time known would overtake the one that had to ask for it, and
                # that one's numbers, being lower, be taken for written.
                await self._clock.now()
                known = topic.tails.get(publisher)
            while True:
                tail = known or await topic.tail(publisher)
                if tail.claim != heeded:
                    heeded = tail.claim
                    if heeded:
                        await asyncio.sleep(_CLAIMED_PAUSE_S)
                        continue
                try:
                    plan = decide(tail)
                except Exception:
                    if known is None:
                        raise
                    known = None
                    continue
                if not plan.messages and known is None:
                    return plan.answer
                known = None
                if not plan.messages:
                    continue
                topic.tails.pop(publisher, None)
                try:
                    place = await topic.write(plan.messages, Condition(topic.subjects.written, tail.place), vital=vital)
                except Mismatch:
                    failures += 1
                    if failures % _PATIENCE == 0:
                        heeded = secrets.token_hex(8).encode()
                        with suppress(Unanswered):
                            await topic.write([Message(topic.subjects.claim, heeded, ROLLUP)])
                    else:
                        why = "others write to the topic all the time"
                        pause_s = min(await connection.pause(pause_s, deadline, why), _RIVAL_PAUSE_S)
                except Unanswered as unanswered:
                    pause_s = await connection.pause(pause_s, deadline, unanswered.why)
                else:
                    tail = plan.tail._replace(place=place, time=max(plan.tail.time, self._clock.latest()), claim=b"")
                    topic.tails[publisher] = tail
                    return plan.answer


def check(grant: Grant, tail: Tail) -> None:
    if not _holds(grant, tail):
        raise Fenced(f"the publisher {grant.publisher!r} of {grant.topic!r}", "the topic was registered or released since")


def _holds(grant: Grant, tail: Tail) -> bool:
    if tail.options.shared:
        return 0 < grant.epoch == tail.pen.epoch
    return grant.publisher == tail.holder.publisher and 0 < grant.epoch == tail.holder.epoch


def _put_down(pen: Pen) -> Pen:
    return Pen(0, pen.number, pen.own)


def _record(subject: str, record: Holder | Pen) -> Message:
    return Message(subject, encode(record), ROLLUP)
