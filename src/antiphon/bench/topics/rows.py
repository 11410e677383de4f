"""Rates, ours beside the bare store's, in pairs that take turns; the ratio of a row is the median over its pairs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

from msgspec import Struct

from antiphon.bench.topics.contestants import Contestant
from antiphon.bench.topics.ours import Ours
from antiphon.bench.topics.raw_nats import RawNats
from antiphon.bench.topics.raw_sqlite import RawSqlite
from antiphon.errors import InvalidOption
from antiphon.store.opening import backend_for

BATCHES = (1, 64, 1_024)
_AT_MOST = {1: 3_000, 64: 60_000}
"""How many values a turn publishes at most, however fast it is: what is published must be read too."""
_names = itertools.count(1)


class Row(Struct, frozen=True, kw_only=True):
    store: str
    operation: str
    batch: int
    per_s: float
    raw_per_s: float
    ratio: float


class TopicGrowth(Struct, frozen=True, kw_only=True):
    """Whether an operation gets dearer: `ratio` is the time of a batch in the large case over that in the small one."""

    store: str
    operation: str
    of: str
    small: int
    large: int
    ratio: float


async def rows(url: str, folder: Path, size: int, pairs: int, turn_s: float, told: Callable[[], None]) -> list[Row]:
    """Publishing and reading in every batch size. `told` is called after each pair."""
    found = []
    for batch in BATCHES:
        ours, raw = _contestants(url, folder, size)
        await ours.open()
        await raw.open()
        try:
            for operation in ("publish", "read"):
                rates: list[tuple[float, float]] = []
                for pair in range(pairs):
                    first, second = (ours, raw) if pair % 2 else (raw, ours)
                    rate = {id(one): await _turn(one, operation, batch, turn_s) for one in (first, second)}
                    rates.append((rate[id(ours)], rate[id(raw)]))
                    told()
                found.append(
                    Row(
                        store=url.partition(":")[0],
                        operation=operation,
                        batch=batch,
                        per_s=round(median(mine for mine, _ in rates)),
                        raw_per_s=round(median(bare for _, bare in rates)),
                        ratio=round(median(mine / bare for mine, bare in rates), 3),
                    )
                )
        finally:
            await ours.close()
            await raw.close()
    return found


async def growth(url: str, size: int, of: str, small: int, large: int, pairs: int, told: Callable[[], None]) -> list[TopicGrowth]:
    """Whether costs grow with the length of a topic, or with its subscribers."""
    batch, found = 64, []
    cases = []
    for amount in (small, large):
        case = Ours(url, f"bench {next(_names)}", size, subscribers=amount if of == "subscribers" else 0)
        await case.open()
        cases.append(case)
        length = amount if of == "length" else 1_000
        while length > 0:
            await case.publish(min(length, 4_096))
            length -= 4_096
        told()
    try:
        for operation in ("publish", "read"):
            ratios = []
            for case in cases:
                if operation == "read":
                    await case.rewind()
                    await case.read(1)
            for _ in range(pairs):
                spent = [await _timed(case, operation, batch) for case in cases]
                ratios.append(spent[1] / spent[0])
                told()
            ratio = round(median(ratios), 3)
            row = TopicGrowth(store=url.partition(":")[0], operation=operation, of=of, small=small, large=large, ratio=ratio)
            found.append(row)
    finally:
        for case in cases:
            await case.close()
    return found


async def _timed(case: Contestant, operation: str, batch: int) -> float:
    """The median time of a batch, over a few."""
    work: Callable[[int], Awaitable[object]] = case.publish if operation == "publish" else case.read
    times = []
    for _ in range(7):
        begun = time.perf_counter()
        await work(batch)
        times.append(time.perf_counter() - begun)
    return median(times)


async def _turn(one: Contestant, operation: str, batch: int, turn_s: float) -> float:
    done, begun = 0, time.perf_counter()
    if operation == "publish":
        while time.perf_counter() - begun < turn_s and done < _AT_MOST.get(batch, 600_000):
            await one.publish(batch)
            done += batch
    else:
        await one.rewind()
        begun = time.perf_counter()
        while time.perf_counter() - begun < turn_s and (got := await one.read(batch)):
            done += got
    return done / (time.perf_counter() - begun)


def _contestants(url: str, folder: Path, size: int) -> tuple[Contestant, Contestant]:
    check(url)
    name = next(_names)
    ours = Ours(url, f"bench {name}", size)
    if url.startswith("sqlite:"):
        return ours, RawSqlite(folder / f"raw-{name}.db", size)
    return ours, RawNats(url, f"raw-{name}-{time.time_ns()}", size)


def check(url: str) -> None:
    """Refuses an address of which there is no bare store to compare with."""
    backend_for(url)
    if not url.startswith(("sqlite:", "nats:")):
        raise InvalidOption("store", url, "measure a sqlite: or a nats: store")


def steps(pairs: int) -> int:
    """How often `told` is called by `rows`."""
    return len(BATCHES) * 2 * pairs
