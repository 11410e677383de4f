"""Subscribers: one record each, changed on condition of its own place, which is its revision.

A new one passes through the gate: it is written in one batch with the floor's record, on condition that the floor is still where it was
read. So no collector can have decided without knowing of it. Whoever unsubscribes leaves a tombstone, which a collector removes: the place
of a record made anew is always another. A change costs one round trip; making a subscriber three.
"""

from __future__ import annotations

from msgspec import structs

from antiphon.errors import Conflict, TooLarge
from antiphon.store.jetstream.codec import Seat, encode, encode_seat, seat_of
from antiphon.store.jetstream.connection import Connection
from antiphon.store.jetstream.faults import STREAM_UNKNOWN, Mismatch, Refusal, Unanswered
from antiphon.store.jetstream.objects import Objects
from antiphon.store.jetstream.stream import ROLLUP, Condition, Message, Stored
from antiphon.store.jetstream.subjects import name_of
from antiphon.store.jetstream.topic import TopicStream
from antiphon.store.records import Moment, Start, Subscriber, start_position

_FIRST_PAUSE_S = 0.002
STATE_BYTES = 64 << 20
"""The largest state."""


class Subscribing:
    def __init__(self, connection: Connection, objects: Objects, inline_bytes: int) -> None:
        """States above `inline_bytes` are kept apart from their record."""
        self._connection, self._objects, self._inline_bytes = connection, objects, inline_bytes

    async def subscribe(self, topic: TopicStream, subscriber: str, lease: Moment, start: Start) -> Subscriber:
        try:
            return await self._subscribe(topic, subscriber, lease, start)
        except Refusal as refusal:
            if refusal.code != STREAM_UNKNOWN:
                raise
        start_position(topic.topic, start, 0, 0)  # refused before the topic is made for it
        await topic.make()
        return await self._subscribe(topic, subscriber, lease, start)

    async def _subscribe(self, topic: TopicStream, subscriber: str, lease: Moment, start: Start) -> Subscriber:
        connection, subject = self._connection, topic.subjects.of_subscriber(subscriber)
        deadline, pause_s = connection.deadline(), _FIRST_PAUSE_S
        tried: Seat | None = None
        while True:
            floor, gate = await topic.gate()
            before = await topic.newest(subject)
            if before is not None and not (seat := seat_of(before)).gone:
                if tried is not None and seat == tried:
                    return _subscriber(topic.topic, subscriber, seat, before.place)  # its acknowledgement was lost
                raise Conflict(f"the subscriber {subscriber!r} of {topic.topic!r}")
            last = floor.floor if start == "earliest" else await topic.last()
            position = start_position(topic.topic, start, floor.floor, last)
            seat = Seat(lease, position)
            messages = [
                Message(topic.subjects.floor, encode(floor), ROLLUP),
                Message(subject, encode_seat(seat), ROLLUP + Condition(subject, before.place if before else 0).headers()),
            ]
            try:
                place = await topic.write(messages, Condition(topic.subjects.floor, gate))
                return _subscriber(topic.topic, subscriber, seat, place)
            except Mismatch:
                pause_s = await connection.pause(pause_s, deadline, "others subscribe or collect all the time")
            except Unanswered as unanswered:
                tried = seat
                pause_s = await connection.pause(pause_s, deadline, unanswered.why)

    async def subscriber(self, topic: TopicStream, subscriber: str) -> Subscriber | None:
        stored = await topic.newest(topic.subjects.of_subscriber(subscriber))
        return await self._read(topic, stored) if stored else None

    async def subscribers(self, topic: TopicStream) -> list[Subscriber]:
        found = []
        for stored in await topic.records(topic.subjects.subscribers):
            if (one := await self._read(topic, stored)) is not None:
                found.append(one)
        return sorted(found, key=lambda one: one.id)

    async def update(self, topic: TopicStream, subscriber: Subscriber) -> Subscriber:
        state, name = subscriber.state, ""
        if len(state) > STATE_BYTES:
            raise TooLarge(len(state), STATE_BYTES, "the state of a subscriber", "keep it elsewhere and say here where it is")
        if len(state) > self._inline_bytes:
            name, state = await self._objects.put(topic.topic, state), b""
        seat = Seat(subscriber.lease, subscriber.position, subscriber.marks, state, name, subscriber.epoch, subscriber.place)
        size = len(encode_seat(seat))
        if size > 2 * self._inline_bytes:
            raise TooLarge(size, 2 * self._inline_bytes, "the record of a subscriber", "do what is between the marks, so that they join")
        place = await self._replace(topic, subscriber, seat)
        return structs.replace(subscriber, revision=place)

    async def unsubscribe(self, topic: TopicStream, subscriber: Subscriber) -> None:
        stored = await topic.newest(topic.subjects.of_subscriber(subscriber.id))
        if stored is not None and not seat_of(stored).gone:
            await self._replace(topic, subscriber, Seat(0, 0, gone=True))

    async def _replace(self, topic: TopicStream, subscriber: Subscriber, seat: Seat) -> int:
        connection, subject, data = self._connection, topic.subjects.of_subscriber(subscriber.id), encode_seat(seat)
        deadline, pause_s = connection.deadline(), _FIRST_PAUSE_S
        unsure = False
        while True:
            try:
                return await topic.write([Message(subject, data, ROLLUP)], Condition(subject, subscriber.revision), vital=True)
            except Mismatch:
                stored = await topic.newest(subject)
                # In a cluster a condition also fails while another write of the same record is under way, which may yet be given up.
                if stored is None or stored.place != subscriber.revision:
                    if unsure and stored is not None and stored.data == data:
                        return stored.place
                    raise Conflict(f"the subscriber {subscriber.id!r} of {subscriber.topic!r}") from None
                pause_s = await connection.pause(pause_s, deadline, "another write of the record is under way")
            except Unanswered as unanswered:
                unsure = True
                pause_s = await connection.pause(pause_s, deadline, unanswered.why)
                await topic.newest(subject)  # says so if there is no such topic at all

    async def _read(self, topic: TopicStream, stored: Stored) -> Subscriber | None:
        one, name = subscriber_of(topic.topic, stored), seat_of(stored).object
        if one is None or not name:
            return one
        state = await self._objects.get(name)
        if state is None:
            # It went because the record has changed since it was read: look again.
            again = await topic.newest(stored.subject)
            return None if again is None or again.place == stored.place else await self._read(topic, again)
        return structs.replace(one, state=state)


def subscriber_of(topic: str, stored: Stored) -> Subscriber | None:
    """As its record has it, without a state that is kept apart; None for a tombstone."""
    seat = seat_of(stored)
    return None if seat.gone else _subscriber(topic, name_of(stored.subject.rpartition(".")[2]), seat, stored.place)


def _subscriber(topic: str, name: str, seat: Seat, place: int) -> Subscriber:
    return Subscriber(
        topic=topic,
        id=name,
        lease=seat.lease,
        position=seat.position,
        marks=seat.marks,
        state=seat.state,
        epoch=seat.epoch,
        place=seat.place,
        revision=place,
    )
