"""Values by their numbers, without their data: where they are, and removing them one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from antiphon.store.jetstream.codec import Label, label_of
from antiphon.store.jetstream.puller import Puller, place_of
from antiphon.store.jetstream.topic import TopicStream
from antiphon.store.records import TopicOptions

_SCAN = 1_000
_BEHIND_S = 1.0
"""How long one waits for a consumer that is behind the leader, before one looks again."""
_DELETES = 32
"""Deletions under way at once."""


def runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Sorted numbers as ranges."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


async def labels(topic: TopicStream, low: int, high: int, options: TopicOptions, subject: str) -> list[tuple[Label, int]]:
    """What the values `low … high` of a subject say about themselves, and where they are."""
    found = await topic.after(low - 1, options)
    puller = Puller(topic, [subject], found.place, headers_only=True)
    there: list[tuple[Label, int]] = []
    wait_s = 0.0
    try:
        while True:
            batch = await puller.pull(min(_SCAN, high - low + 1), wait_s)
            for delivery in batch:
                label = label_of(delivery[3])
                if label.seq > high:
                    return there
                there.append((label, place_of(delivery)))
            if not batch:
                due = await topic.next(subject, puller.next)
                if due is None or label_of(due.headers).seq > high:
                    return there
                wait_s = _BEHIND_S
    finally:
        await puller.close()


async def delete_all(topic: TopicStream, places: Sequence[int], *, overwrite: bool) -> int:
    """Deletes these messages, some at a time. Returns how many were there."""
    deleted = 0
    for at in range(0, len(places), _DELETES):
        deleted += sum(await asyncio.gather(*(topic.delete(place, overwrite=overwrite) for place in places[at : at + _DELETES])))
    return deleted
