"""Two nodes whose clocks are an hour apart: time is the store's, so no lease is over early or late by more than is stated.

Stated is, on SQLite: never early, and late by at most `clock_s` (the clock is the machine's, which all processes share). On JetStream:
early or late by what a slow round trip to the server takes. The other node is asked between two looks at the store's time here: what it
answers must be right for some time between these.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from antiphon.store import Gap, Store, StoreSettings, Value, open_store
from antiphon.store.records import SECOND

HOUR_S = 3600
WAIT_S = 60.0
SETTINGS = StoreSettings(clock_s=0.05, collect_s=0, node_timeout_s=3.0)
SHIFTED = Path(__file__).with_name("shifted.py")


class Place(NamedTuple):
    url: str
    early: int
    late: int
    """By how much a lease may be over early or late, in nanoseconds."""


@pytest.fixture(params=["sqlite", "nats"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield Place(f"sqlite:{tmp_path}/clocks.db", 0, round(SETTINGS.clock_s * SECOND))
        return
    if find_spec("nats") is None:
        pytest.skip("nats-py is not installed: pip install 'antiphon[nats]'")
    from antiphon.store.jetstream import LocalServers

    with LocalServers(1, tmp_path) as servers:
        slow = 15 * SECOND  # a round trip while the machine is busy with something else; an hour has 240 of them
        yield Place(servers.url, slow, slow)


class Other:
    """The other node."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ask(self, *words: object) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write((" ".join(map(str, words)) + "\n").encode())
        await self._process.stdin.drain()
        return await self.answer()

    async def answer(self) -> str:
        assert self._process.stdout is not None
        async with asyncio.timeout(WAIT_S):
            said = (await self._process.stdout.readline()).decode().strip()
        assert said, "the other node has died"
        return said


def command(shift: str) -> tuple[list[str], list[str]]:
    """How to start a process with such a clock, and what to tell it."""
    if shift != "boot":
        return [], {"ahead": [str(HOUR_S)], "behind": [str(-HOUR_S)], "all": [str(HOUR_S), "all"]}[shift]
    before = ["unshare", "--time", "--boottime", str(HOUR_S), "--monotonic", str(HOUR_S), "--fork", "--kill-child"]
    if shutil.which("unshare") is None or subprocess.run([*before, "true"], capture_output=True, timeout=20, check=False).returncode:
        pytest.skip("this machine does not let the test make a time namespace")
    return before, ["0"]


@asynccontextmanager
async def nodes(url: str, shift: str) -> AsyncIterator[tuple[Store, Other]]:
    before, said = command(shift)
    async with open_store(url, name="here", settings=SETTINGS) as store:
        process = await asyncio.create_subprocess_exec(*before, sys.executable, str(SHIFTED), url, *said, stdin=PIPE, stdout=PIPE)
        try:
            other = Other(process)
            assert await other.answer() == "ready"
            yield store, other
        finally:
            process.kill()
            await process.wait()


shifts = pytest.mark.parametrize("shift", ["ahead", "behind", "boot"])


@shifts
def test_both_have_the_same_time(place: Place, shift: str) -> None:
    """A node whose clock is wrong would tell the others that an hour has passed."""

    async def story() -> None:
        async with nodes(place.url, shift) as (store, other):
            for _ in range(5):
                before = await store.time()
                there = int(await other.ask("time"))
                assert before - place.early <= there <= await store.time() + place.early
                before = await store.time()
                value = await store.topic("there").at(int(await other.ask("publish")), timeout=WAIT_S)
                assert isinstance(value, Value)
                assert before - place.early <= value.time <= await store.time() + place.early

    asyncio.run(story())


@pytest.mark.skipif(sys.platform != "linux", reason="only there the clock that is shifted is the one that the store goes by")
def test_a_clock_that_is_believed_shows(tmp_path: Path) -> None:
    """The tests of this file would pass whatever a store goes by."""

    async def story() -> None:
        url = f"sqlite:{tmp_path}/clocks.db"
        async with open_store(url) as store:
            before = await store.time()
        async with nodes(url, "all") as (_, other):
            assert int(await other.ask("time")) >= before + HOUR_S * SECOND

    asyncio.run(story())


@shifts
def test_a_lease_is_over_when_it_is_over(place: Place, shift: str) -> None:
    """Values would expire unread for a node whose clock is ahead, and be read long after they mean anything where it is behind."""

    async def story() -> None:
        lease_s = 0.5
        lease = round(lease_s * SECOND)
        async with nodes(place.url, shift) as (store, other):
            here = store.topic("here")
            await here.subscribe(86_400.0, id="keeps everything here")
            await store.topic("there").subscribe(86_400.0, id="keeps everything there")
            await here.publish(b"here")
            value = await here.at(1)
            assert isinstance(value, Value)
            # What is published here, as the other node sees it:
            assert await other.ask("look", "here", 1800) == "due"
            found = ""
            async with asyncio.timeout(WAIT_S):
                while found != "expired":
                    before = await store.time()
                    found = await other.ask("look", "here", lease_s)
                    after = await store.time()
                    assert found in ("due", "expired")
                    if found == "due":
                        assert before <= value.time + lease + place.late
                    else:
                        assert after >= value.time + lease - place.early
            # What the other node publishes, as it is seen here:
            value = await store.topic("there").at(int(await other.ask("publish")), timeout=WAIT_S)
            assert isinstance(value, Value)
            async with await store.topic("there").subscribe(1800.0) as subscription:
                assert isinstance(await subscription.read(WAIT_S), Value)
            expired = False
            async with asyncio.timeout(WAIT_S):
                while not expired:
                    before = await store.time()
                    expired = await over(store, "there", lease_s)
                    after = await store.time()
                    if expired:
                        assert after >= value.time + lease - place.early
                    else:
                        assert before <= value.time + lease + place.late

    asyncio.run(story())


async def over(store: Store, topic: str, lease_s: float) -> bool:
    """Whether the first value is skipped for a new subscriber with this lease."""
    async with await store.topic(topic).subscribe(lease_s) as subscription:
        while not subscription.expired:
            try:
                assert isinstance(await subscription.read(0.05), Value)
            except TimeoutError:
                continue
            return False
        return True


@shifts
def test_nothing_is_collected_early(place: Place, shift: str) -> None:
    """A collector whose clock is ahead would remove what somebody still has to read."""

    async def story() -> None:
        lease = SECOND
        async with nodes(place.url, shift) as (store, other):
            topic = store.topic("here")
            waiting = await topic.subscribe(1800.0, id="reads tomorrow")
            await topic.publish(b"here")
            value = await topic.at(1)
            assert isinstance(value, Value)
            assert await other.ask("collect", "here") == "0"
            await waiting.renew(lease / SECOND)
            await waiting.close()
            floor = 0
            async with asyncio.timeout(WAIT_S):
                while not floor:
                    floor = int(await other.ask("collect", "here"))
                    after = await store.time()
                    assert not floor or after >= value.time + lease - place.early
            assert await topic.at(1) == Gap(1, 1, "collected")

    asyncio.run(story())
