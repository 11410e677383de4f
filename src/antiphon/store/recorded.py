"""A back end whose doings are taken down: every call goes on to the real one, and what it has answered is told.

What is told is what the store has: values that it has acknowledged, positions that it has written, floors that it has raised. Whatever
was not answered is not told, though it may have happened. Of an agent's step only the position is told: the store does not say which
numbers its values got. What a subscriber is given is told by the subscription, for a back end reads ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from antiphon.model.recording import StoreTranscript
from antiphon.store.records import Collected, Entry, Gap, Grant, Moment, Publication, Receipt, Start, Subscriber
from antiphon.store.succession import Item

if TYPE_CHECKING:
    from antiphon.store.contract import Backend


def recorded(backend: Backend, transcript: StoreTranscript) -> Backend:
    """The same back end, taken down."""
    return cast("Backend", _Recorded(backend, transcript))


class _Recorded:
    def __init__(self, backend: Backend, transcript: StoreTranscript) -> None:
        self._backend, self._transcript = backend, transcript

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def publish(self, grant: Grant, first: int, entries: Sequence[Entry], *, synced: bool = True) -> Receipt:
        receipt = await self._backend.publish(grant, first, entries, synced=synced)
        # A receipt for more or less than was sent is of values that were there before, with others' between them.
        if entries and receipt.last - receipt.first + 1 == len(entries):
            payloads = [entry.data for entry in entries]
            self._transcript.published(grant.topic, grant.publisher, receipt.first, receipt.last, first, payloads)
        return receipt

    async def erase(self, grant: Grant, numbers: Sequence[int]) -> int:
        gone = await self._backend.erase(grant, numbers)
        self._transcript.erased(grant.topic, grant.publisher, numbers)
        return gone

    async def collect(self, topic: str, horizon: Moment) -> Collected:
        collected = await self._backend.collect(topic, horizon)
        self._transcript.collected(topic, collected.floor, collected.removed)
        return collected

    async def subscribe(self, topic: str, subscriber: str, lease: Moment, start: Start = "earliest") -> Subscriber:
        return self._done(await self._backend.subscribe(topic, subscriber, lease, start), "begins")

    async def update(self, subscriber: Subscriber) -> Subscriber:
        return self._done(await self._backend.update(subscriber))

    async def step(self, subscriber: Subscriber, publications: Sequence[Publication]) -> Subscriber:
        return self._done(await self._backend.step(subscriber, publications))

    def _done(self, record: Subscriber, note: str | None = None) -> Subscriber:
        self._transcript.done(record.topic, record.id, record.epoch, record.position, "marks" if record.marks else note)
        return record


def ranges_of(items: Sequence[Item]) -> list[tuple[int, int, str | None]]:
    """What was given out, as few ranges as there are: values without a note, gaps with what became of them."""
    ranges: list[tuple[int, int, str | None]] = []
    for item in items:
        if isinstance(item, Gap):
            ranges.append((item.first, item.last, "gap" if item.why == "collected" else "removed"))
        elif ranges and ranges[-1][2] is None and ranges[-1][1] == item.seq - 1:
            ranges[-1] = (ranges[-1][0], item.seq, None)
        else:
            ranges.append((item.seq, item.seq, None))
    return ranges
