"""Reading a topic: batches pulled from a consumer that begins where the reader does.

What is missing between two values has been collected or erased, and the chunk has the floor so that one can tell. The floor is looked at
when reading begins and whenever something is missing: it is written before values go, so it is known as soon as they are missed. That a
chunk is empty is asked of the stream's leader: a consumer on another server of a cluster may be a moment behind what was acknowledged.
That the newest values were erased is learnt from a consumer, which goes through the stream in order: it comes to the record that was
written before they went, and to no value on its way there. Two questions, answered by the leader of before and by that of now, could miss
a value.

The newest number is the value's own when nothing is behind it, else it is counted with what the consumer says is behind: where
values have been erased behind it, it may be a little low until they have been passed. One round trip per chunk that has values, and one
more, with three questions, for an empty one; behind an erasure three, once.
"""

from __future__ import annotations

import asyncio

from antiphon.errors import StoreUnreachable
from antiphon.store.jetstream.clock import Clock
from antiphon.store.jetstream.codec import delivered_values, holder_in
from antiphon.store.jetstream.puller import Puller
from antiphon.store.jetstream.topic import TopicStream
from antiphon.store.records import Chunk, TopicOptions, Value

_CATCH_UP_S = 5.0
"""How long a consumer may be behind the leader before it is asked again where it is."""


class JetStreamReader:
    def __init__(self, topic: TopicStream, clock: Clock, after: int, place: int) -> None:
        self._topic, self._clock = topic, clock
        self._after, self._hint = after, place
        self._floor = self._last = self._gone = 0
        self._options: TopicOptions | None = None
        self._held: list[Value] = []
        """Pulled and not yet handed on."""
        self._puller: Puller | None = None

    async def open(self) -> JetStreamReader:
        topic = self._topic
        (floor, _), tail = await asyncio.gather(topic.gate(), topic.tail())
        self._floor, self._last, self._options = floor.floor, tail.last, tail.holder.options
        self._after = max(self._after, self._floor)
        self._puller = Puller(topic, topic.values(self._options), await self._start(self._hint))
        return self

    async def take(self, limit: int, timeout_s: float) -> Chunk:
        topic = self._topic
        if not self._held:
            await self._fill(limit, timeout_s)
        # What was pulled stays here until it is handed on: who gives up while the floor is asked for must not lose it.
        values = self._held[:limit]
        if values and (values[0].seq > self._after + 1 or values[-1].seq - values[0].seq >= len(values)):
            self._floor = (await topic.gate())[0].floor
        time = await self._clock.now()
        if values:
            del self._held[:limit]
            self._after = values[-1].seq
            self._last = max(self._last, self._after)
            time = self._clock.observe(values[-1].time)
        return Chunk(values, self._floor, self._last, time, 0 if values else self._gone)

    async def _fill(self, limit: int, timeout_s: float) -> None:
        """Pulls the next values; none when there were none in time."""
        puller, topic, connection = self._opened(), self._topic, self._topic.connection
        until = connection.now() + timeout_s
        while True:
            deliveries = await puller.pull(limit, max(0.0, until - connection.now()))
            if deliveries:
                values, behind = delivered_values(deliveries)
                self._last = max(self._last, values[-1].seq + behind)
                self._held = values if values[0].seq > self._after else [value for value in values if value.seq > self._after]
                if self._held:
                    return
                continue  # all that came lies before where reading begins
            self._last, (floor, _), due = await asyncio.gather(topic.last(), topic.gate(), self._is_due(puller.next))
            self._floor = floor.floor
            if due:
                until = max(until, connection.now() + _CATCH_UP_S)
            elif connection.now() >= until:
                if self._last > max(self._after, self._floor, self._gone):
                    self._gone = max(self._gone, await self._erased_up_to(puller.next))
                return

    async def close(self) -> None:
        puller, self._puller = self._puller, None
        if puller is not None:
            await puller.close()

    def _opened(self) -> Puller:
        if self._puller is None:
            raise StoreUnreachable(self._topic.connection.url, "the reader is closed")
        return self._puller

    async def _start(self, hint: int) -> int:
        """The place at which everything above the position is or comes after."""
        if not self._after:
            return 1
        if hint:
            return hint + 1
        if self._after >= self._last:
            state = await self._topic.state()
            return state.last_seq + 1
        assert self._options is not None, "where there are values, the options are decided"
        return (await self._topic.after(self._after, self._options)).place

    async def _erased_up_to(self, place: int) -> int:
        """The newest number that is known to be gone, with all before it, because no value lies between this place and the record that says
        how far the numbers are; 0 where one does, or it is not there yet."""
        topic = self._topic
        puller = Puller(topic, [*topic.values(self._options), topic.subjects.holder], place)
        try:
            deliveries = await puller.pull(1, 0.0)
        finally:
            await puller.close()
        record = [data for subject, _, data, _ in deliveries if subject.decode() == topic.subjects.holder]
        return holder_in(record[0]).last if record else 0

    async def _is_due(self, place: int) -> bool:
        """Whether the leader has a value at this place or behind it."""
        subjects = self._topic.values(self._options)
        return any(await asyncio.gather(*(self._topic.next(subject, place) for subject in subjects)))
