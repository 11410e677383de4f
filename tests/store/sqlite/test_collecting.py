"""Collecting in pieces, and what must be true between two of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.store.records import SECOND, Entry, TopicOptions
from antiphon.store.sqlite import collecting

HOUR = 3600 * SECOND


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(collecting, "PIECE", 10)
    return 10


async def test_others_write_between_the_pieces(file: Path, opened: Any, small_pieces: int) -> None:
    """Whoever publishes would wait until a million values are removed."""
    async with opened(file) as store:
        grant = await store.register("t", "p", options=TopicOptions(retention_s=0))
        await store.publish(grant, 1, [Entry(b"x")] * 500)
        before = store.commits
        collecting_all = asyncio.create_task(store.collect("t", await store.time()))
        number = 501
        while not collecting_all.done():
            await store.publish(grant, number, [Entry(b"y")])
            number += 1
        assert (await collecting_all).removed == 500
        assert store.commits - before > 500 // small_pieces
        assert number > 510


async def test_a_collector_killed_between_two_pieces(file: Path, opened: Any, small_pieces: int) -> None:
    """What it had not come to would be read although it is below the floor, or stay in the file for ever."""
    async with opened(file) as store:
        grant = await store.register("t", "p", options=TopicOptions(retention_s=0))
        await store.publish(grant, 1, [Entry(b"x")] * 100)
        horizon = await store.time()
        piece, _ = await store._house.writer.submit(lambda transaction: collecting.collect_piece(transaction, "t", horizon, {}))
        assert (piece.floor, piece.removed, piece.is_last) == (100, small_pieces, False)
    async with opened(file) as store:
        assert (await store.info("t")).values == 90
        chunk = await (await store.reader("t", 0)).take(10, 0)
        assert (list(chunk.values), chunk.floor, chunk.last) == ([], 100, 100)
        assert (await store.subscribe("t", "s", HOUR)).position == 100
        assert await store.collect("t", await store.time()) == (100, 90)
        assert (await store.info("t")).values == 0


async def test_a_subscriber_between_two_pieces_loses_nothing(file: Path, opened: Any, small_pieces: int) -> None:
    """Values that all had marked done would be removed under the eyes of a newcomer who has not seen them."""
    async with opened(file) as store:
        grant = await store.register("t", "p")
        await store.publish(grant, 1, [Entry(b"x")] * 100)
        first = await store.subscribe("t", "first", HOUR)
        await store.update(replace(first, marks=((11, 100),)))  # done with all but the first ten
        horizon = await store.time()
        piece, _ = await store._house.writer.submit(lambda transaction: collecting.collect_piece(transaction, "t", horizon, {}))
        assert (piece.floor, piece.removed) == (0, small_pieces)
        await store.subscribe("t", "second", HOUR)
        piece, _ = await store._house.writer.submit(lambda transaction: collecting.collect_piece(transaction, "t", horizon, {}))
        assert piece.removed == 0
        assert (await store.info("t")).values == 90


async def test_where_own_numbers_were_is_known_as_long_as_it_matters(file: Path, opened: Any) -> None:
    """Publishers who repeat would be told wrong numbers; or what is kept for them would grow for ever."""
    async with opened(file) as store:
        one = await store.register("t", "one", options=TopicOptions(shared=True, retention_s=0))
        two = await store.register("t", "two")
        for round_ in range(20):
            await store.publish(one, 10 * round_ + 1, [Entry(b"1")] * 2)  # with gaps in its numbers
            await store.publish(two, 3 * round_ + 1, [Entry(b"2")] * 3)
        for round_ in range(20):
            assert (await store.publish(one, 10 * round_ + 1, [Entry(b"1")] * 2))[:2] == (5 * round_ + 1, 5 * round_ + 2)
            assert (await store.publish(two, 3 * round_ + 1, [Entry(b"2")] * 3))[:2] == (5 * round_ + 3, 5 * round_ + 5)
        assert (await store.info("t")).last == 100
        stretches = "SELECT count(*) FROM stretch"
        (before,) = (await store._house.readers.look(lambda connection: connection.execute(stretches).fetchone()))
        assert (await store.collect("t", await store.time())).floor == 100
        (after,) = (await store._house.readers.look(lambda connection: connection.execute(stretches).fetchone()))
        assert (before, after) == (39, 2)
        assert (await store.publish(one, 191, [Entry(b"1")] * 2))[:2] == (96, 97)
        assert (await store.publish(two, 58, [Entry(b"2")] * 4))[:2] == (98, 101)


async def test_what_is_missing_above_the_floor_while_something_is_left_below_it(file: Path, opened: Any, small_pieces: int) -> None:
    """As many values would be missing as are left over: a reader that counts would take the file for damaged, or give wrong numbers."""
    async with opened(file) as store:
        grant = await store.register("t", "p")
        await store.publish(grant, 1, [Entry(b"%d" % number) for number in range(1, 41)])
        subscriber = await store.subscribe("t", "s", HOUR)
        await store.update(replace(subscriber, position=20))
        horizon = await store.time()
        piece, _ = await store._house.writer.submit(lambda transaction: collecting.collect_piece(transaction, "t", horizon, {}))
        assert (piece.floor, piece.removed) == (20, small_pieces)
        assert await store.erase(grant, range(25, 35)) == 10
        values = (await (await store.reader("t", 0)).take(100, 0)).values
        assert [(value.seq, value.data) for value in values] == [(number, b"%d" % number) for number in (*range(21, 25), *range(35, 41))]
        assert len({value.time for value in values}) == 1


async def test_a_row_per_batch_does_not_stay_for_ever(file: Path, opened: Any) -> None:
    """A mutable topic, or one whose values all are taken back, would grow with every publish."""
    async with opened(file) as store:
        mutable = await store.register("m", "p", options=TopicOptions(mutable=True))
        grant = await store.register("t", "p", options=TopicOptions(retention_s=0))
        for number in range(1, 51):
            await store.publish(mutable, 2 * number, [Entry(b"x", "one"), Entry(b"y", "two")][: 1 + number % 2])
            await store.publish(grant, number, [Entry(b"x")])

        def batches() -> Any:
            return store._house.readers.look(lambda connection: connection.execute("SELECT count(*) FROM batch").fetchone()[0])

        assert await batches() == 52
        await store.erase(grant, range(1, 26))
        assert await batches() == 27
        await store.collect("t", await store.time())
        assert await batches() <= 3
        values = (await (await store.reader("m", 0)).take(10, 0)).values
        assert [(value.key, value.seq) for value in values] == [("two", 74), ("one", 75)]
        assert values[0].time <= values[1].time
