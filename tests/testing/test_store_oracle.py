"""The oracle of stores sees every kind of violation, and is silent where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.store.contract import Reader
from antiphon.store.memory import MemoryBackend
from antiphon.store.records import Chunk, Collected, Entry, Grant, Moment, Publication, Receipt, Subscriber
from antiphon.testing import store_worker
from antiphon.testing.store_journal import (
    Acknowledged,
    AnyEvent,
    Began,
    Done,
    Erased,
    Intended,
    Journal,
    Missed,
    Read,
    Seen,
    Subscribed,
    digest,
    payload,
    read_journal,
    seen,
)
from antiphon.testing.store_oracle import Evidence, Left, Violation, judge
from antiphon.testing.store_processes import evidence, orders_for
from antiphon.testing.store_worker import work

_FRESH = count(1)
HOUR = 3600 * 10**9


def digest_of(values: Sequence[Seen]) -> int:
    found = 0
    for value in values:
        found = digest(found, value)
    return found


def good() -> Evidence:
    """ana and ben publish to a shared topic; eva reads it, comes back once, and is told of one erased value; half is collected."""
    log = [Seen(1, 10, "ana", 1), Seen(2, 10, "ana", 2), Seen(3, 11, "ben", 1), Seen(4, 12, "ana", 3), Seen(5, 13, "ben", 2)]
    kept = [value for value in log if value.seq != 4]
    where: dict[str, Any] = {"topic": "t", "name": "ana"}
    ben: dict[str, Any] = {"topic": "t", "name": "ben"}
    eva: dict[str, Any] = {"topic": "t", "name": "eva"}
    ana_wrote: list[AnyEvent] = [
        Began(time=9, **where),
        Intended(first=1, last=2, **where),
        Acknowledged(first=1, last=2, seq_first=1, seq_last=2, **where),
        Intended(first=3, last=3, **where),
        Acknowledged(first=3, last=3, seq_first=4, seq_last=4, **where),
        Erased(seqs=[4], **where),
    ]
    ben_wrote: list[AnyEvent] = [
        Began(time=9, **ben),
        Intended(first=1, last=1, **ben),
        Acknowledged(first=1, last=1, seq_first=3, seq_last=3, **ben),
        Intended(first=2, last=2, **ben),
    ]
    fay_read: list[AnyEvent] = [
        Subscribed(topic="t", name="fay", position=0, lease=HOUR, count=0, digest=0, anew=True),
        Read(topic="t", name="fay", values=log),
        Done(topic="t", name="fay", position=5, count=5, digest=digest_of(log)),
    ]
    eva_read: list[AnyEvent] = [
        Subscribed(position=0, lease=HOUR, count=0, digest=0, anew=True, **eva),
        Read(values=log[:2], **eva),
        Done(position=2, count=2, digest=digest_of(log[:2]), **eva),
        Read(values=log[2:3], **eva),
        Subscribed(position=2, lease=HOUR, count=2, digest=digest_of(log[:2]), anew=False, **eva),
        Read(values=kept[2:], **eva),
        Missed(first=4, last=4, floor=0, time=20, **eva),
        Done(position=5, count=4, digest=digest_of(kept), **eva),
    ]
    left = {"t": Left(5, 2, kept[2:])}
    return Evidence([ana_wrote, ben_wrote, fay_read, eva_read], left, {("t", "ana"): 3, ("t", "ben"): 2})


ANA, BEN, FAY, EVA = range(4)


def changed(journal: int, at: int, **fields: object) -> Callable[[Evidence], Evidence]:
    """One event of one journal says something else."""

    def change(before: Evidence) -> Evidence:
        journals = [list(events) for events in before.journals]
        journals[journal][at] = replace(journals[journal][at], **fields)
        return before._replace(journals=journals)

    return change


def without(journal: int, at: int) -> Callable[[Evidence], Evidence]:
    def change(before: Evidence) -> Evidence:
        journals = [list(events) for events in before.journals]
        del journals[journal][at]
        return before._replace(journals=journals)

    return change


def left(**fields: Any) -> Callable[[Evidence], Evidence]:
    return lambda before: before._replace(left={"t": before.left["t"]._replace(**fields)})


LOG = [Seen(1, 10, "ana", 1), Seen(2, 10, "ana", 2), Seen(3, 11, "ben", 1), Seen(4, 12, "ana", 3), Seen(5, 13, "ben", 2)]

BROKEN: list[tuple[str, str, Callable[[Evidence], Evidence]]] = [
    ("altered", "bytes of a value in the store", left(values=[LOG[2], Seen(5, 13, "", 0)])),
    ("altered", "bytes of a value that was read", changed(FAY, 1, values=[Seen(1, 10, "", 0), *LOG[1:]])),
    ("invented", "nobody meant to publish it", without(BEN, 3)),
    ("disagreement", "another value at the end than was read", left(values=[Seen(3, 11, "ana", 3), LOG[4]])),
    ("disagreement", "another time", changed(FAY, 1, values=[LOG[0]._replace(time=9), *LOG[1:]])),
    ("disagreement", "a receipt names another's value", changed(ANA, 4, seq_first=5, seq_last=5)),
    ("disagreement", "a receipt is one too low", changed(ANA, 2, seq_first=2, seq_last=3)),
    ("lost", "the end of the topic", left(last=4, values=[LOG[2]])),
    ("lost", "acknowledged beyond the end", changed(BEN, 2, seq_first=9, seq_last=9)),
    ("lost", "a number in the middle", left(values=[LOG[4]])),
    ("lost", "not erased and not there", without(ANA, 5)),
    ("lost", "acknowledged and never written", changed(BEN, 2, last=3)),
    ("lost", "said to be gone, and there", changed(EVA, 6, first=3)),
    ("twice", "one value under two numbers", changed(FAY, 1, values=[*LOG[:4], Seen(5, 13, "ben", 1)])),
    ("reordered", "a publisher's own numbers", changed(FAY, 1, values=[Seen(1, 10, "ana", 2), Seen(2, 10, "ana", 1), *LOG[2:]])),
    ("reordered", "times that fall", changed(FAY, 1, values=[*LOG[:3], LOG[3]._replace(time=10), LOG[4]])),
    ("reordered", "given again", changed(FAY, 1, values=[*LOG, LOG[4]])),
    ("reordered", "given too late", changed(FAY, 1, values=[LOG[0], LOG[2], LOG[1], *LOG[3:]])),
    ("early", "gone while it was due", without(ANA, 5)),
    ("early", "gone to the nanosecond", lambda before: changed(EVA, 4, lease=8)(without(ANA, 5)(before))),
    ("silence", "done and never seen", without(EVA, 6)),
    ("silence", "done and never read", changed(FAY, 1, values=LOG[:4])),
    ("continuation", "a value counted twice", changed(FAY, 2, count=6)),
    ("continuation", "another value counted", changed(FAY, 2, digest=1)),
    ("continuation", "came back to less", changed(EVA, 4, position=1, count=1, digest=digest_of(LOG[:1]))),
    ("continuation", "came back to another state", changed(EVA, 4, count=3)),
    ("count", "not all were published", lambda before: before._replace(expected={("t", "ana"): 4, ("t", "ben"): 2})),
    ("count", "more than all were published", lambda before: before._replace(expected={("t", "ana"): 3, ("t", "ben"): 1})),
    ("count", "somebody who was not to publish", lambda before: before._replace(expected={("t", "ana"): 3})),
]


def test_what_is_right_is_not_complained_about() -> None:
    """An oracle that cries wolf would be switched off."""
    assert judge(good()) == []


@pytest.mark.parametrize(("rule", "what", "change"), BROKEN, ids=[f"{rule}: {what}" for rule, what, _ in BROKEN])
def test_what_is_broken_is_seen(rule: str, what: str, change: Callable[[Evidence], Evidence]) -> None:
    """A campaign of a thousand kills proves nothing if its judge is blind in one eye."""
    assert rule in {violation.rule for violation in judge(change(good()))}


def test_a_lease_that_has_ended_is_a_reason() -> None:
    """Values that were rightly collected would be called lost."""
    ended = changed(EVA, 4, lease=7)(without(ANA, 5)(good()))
    assert {violation.rule for violation in judge(ended)} == {"lost"}  # above the floor, and neither erased nor collected
    collected = ended._replace(left={"t": Left(5, 4, LOG[4:])})
    assert judge(collected) == []


# --- journals and workers ----------------------------------------------------------------------------------------------------------


def test_a_journal_survives_a_torn_line(tmp_path: Path) -> None:
    """Killed while writing, a worker would take its whole journal with it, or the next life's first line."""
    path = tmp_path / "j"
    journal = Journal(path)
    first = Began(topic="t", name="a", time=1)
    journal.write(first)
    journal.close()
    with path.open("ab") as file:
        file.write(b'{"type":"Began","topic":"t","na')
    second = Began(topic="t", name="a", time=2)
    again = Journal(path)
    again.write(second)
    again.close()
    assert read_journal(path) == [first, second]
    assert read_journal(tmp_path / "none") == []
    path.write_bytes(b'nonsense\n{"type":"Began","topic":"t","name":"a","time":1}\n')
    with pytest.raises(ValueError, match="no event"):
        read_journal(path)


@pytest.mark.parametrize("size", [0, 5, 200])
def test_a_payload_says_whose_it_is(size: int) -> None:
    """A value with one wrong byte would pass for whole."""
    from antiphon.store.records import Value

    data = payload("ana", 7, size)
    assert seen(Value(1, 2, data)) == Seen(1, 2, "ana", 7)
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 1
        assert seen(Value(1, 2, bytes(broken))) != Seen(1, 2, "ana", 7)
    assert seen(Value(1, 2, data[:-1])) != Seen(1, 2, "ana", 7)


class CollectsAtTheFirst(MemoryBackend):
    async def collect(self, topic: str, horizon: Moment) -> Collected:
        async with self._turn() as shelf:
            here = shelf.topic(topic)
            here.floor = max([here.floor, *(subscriber.position for subscriber in here.subscribers.values())])
            return Collected(here.floor, here.drop(lambda stored: stored.seq <= here.floor))


class ReaderRepeats(MemoryBackend):
    async def reader(self, topic: str, after: int, place: int = 0) -> Reader:
        reader, before = await super().reader(topic, after), list[Chunk]()

        class Repeats:
            async def take(self, limit: int, timeout_s: float) -> Chunk:
                if len(before) == 3:
                    return before.pop()
                before.append(await reader.take(limit, timeout_s))
                return before[-1]

            async def close(self) -> None:
                await reader.close()

        return Repeats()


class LosesEveryNinth(MemoryBackend):
    """Acknowledges what it has not written."""

    async def publish(self, grant: Grant, first: int, entries: Sequence[Entry], *, synced: bool = True) -> Receipt:
        receipt = await super().publish(grant, first, entries)
        if receipt.last % 9 == 0:
            async with self._turn() as shelf:
                shelf.topic(grant.topic).drop(lambda stored: stored.seq == receipt.last)
        return receipt


class StepsTwice(MemoryBackend):
    async def step(self, subscriber: Subscriber, publications: Sequence[Publication]) -> Subscriber:
        async with self._turn() as shelf:
            for grant, first, entries in publications:
                if first % 10 == 0:
                    _, mine = shelf.held(grant)
                    self._publish(shelf, grant, mine.number + 1, entries)
                    mine.number -= 1
        return await super().step(subscriber, publications)


class Alters(MemoryBackend):
    async def publish(self, grant: Grant, first: int, entries: Sequence[Entry], *, synced: bool = True) -> Receipt:
        return await super().publish(grant, first, [Entry(entry.data[:-1] + b"?") if first == 1 else entry for entry in entries])


def campaign(kind: type[MemoryBackend], directory: Path, monkeypatch: pytest.MonkeyPatch) -> list[Violation]:
    """The work of several processes in one, on a store of this kind."""
    monkeypatch.setattr(store_worker, "backend_for", kind)
    orders = orders_for(f"memory:oracle{next(_FRESH)}", directory, writers=2, values=60, seconds=2.0)

    async def run() -> list[Violation]:
        await asyncio.gather(*(work(order) for order in orders), return_exceptions=True)
        return judge(await evidence(orders[0].url, orders))

    return asyncio.run(run())


def test_workers_in_one_process_break_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers themselves would be at fault for what the store is blamed for."""
    assert campaign(MemoryBackend, tmp_path, monkeypatch) == []


@pytest.mark.parametrize(
    ("kind", "rules"),
    [
        (CollectsAtTheFirst, {"early"}),
        (LosesEveryNinth, {"lost", "early"}),
        (StepsTwice, {"twice"}),
        (Alters, {"altered"}),
        (ReaderRepeats, {"reordered"}),
    ],
    ids=lambda one: one.__name__ if isinstance(one, type) else "",
)
def test_a_broken_store_is_convicted_by_its_workers(
    kind: type[MemoryBackend], rules: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the workers write down would not be enough to see what happened to them."""
    assert rules & {violation.rule for violation in campaign(kind, tmp_path, monkeypatch)}
