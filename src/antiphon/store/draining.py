"""Sends what waits in the outbox when the store answers again: topic by topic, in order, each value once.

A batch goes in four steps: take the oldest values; write down which numbers of its own the publisher gives them; publish; remove them.
Killed after any of them, the next process does the rest: what has numbers is published under the same ones, and the store writes no number
twice.

The numbers of a batch begin `STRIDE` above the publisher's newest one. So they say by themselves whether the batch is in the store, even if
somebody else has published under this name between a crash and now: counting on from what was there he stays below the batch that is
not in, and above the one that is. (A batch is whole or not there at all.)

A store that does not answer is tried again after pauses that grow to `retry_limit_s`; a topic that somebody else has (TopicTaken, Fenced)
or that refuses (other options, no room) keeps its values, is told in `stats` and the log, and is tried again likewise; the others go on.

Costs per batch: two synced writes to the outbox and one publish of up to the store's largest batch. Keeps one batch in memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import suppress
from random import Random
from typing import TypeVar

from msgspec import Struct

from antiphon.errors import StoreUnreachable, TimedOut
from antiphon.store.contract import Backend
from antiphon.store.ending import end
from antiphon.store.outbox import Outbox
from antiphon.store.records import Grant, TopicOptions, check_keys

T = TypeVar("T")

STRIDE = 1 << 30
LOOK_S = 60.0

log = logging.getLogger("antiphon.store")


class Draining:
    def __init__(
        self,
        outbox: Outbox,
        backend: Backend,
        *,
        retry_s: float = 0.2,
        retry_limit_s: float = 30.0,
        call_s: float = 30.0,
        chance: Random | None = None,
    ) -> None:
        self._outbox, self._backend = outbox, backend
        self._retry_s, self._retry_limit_s, self._call_s = retry_s, retry_limit_s, call_s
        self._chance = chance or Random()
        self._store = _Obstacle()
        self._obstacle_by_topic: dict[str, _Obstacle] = {}
        self._right_by_topic: dict[str, _Right] = {}
        self._nudged, self._emptied, self._passed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.drained = self.batches = self.retries = 0

    def start(self) -> None:
        self._task = self._task or asyncio.get_running_loop().create_task(self._run(), name=f"draining {self._outbox.path}")

    async def stop(self) -> None:
        """What has not been sent waits for the next start."""
        task, self._task = self._task, None
        await end(task)

    async def finish(self, timeout_s: float) -> None:
        """Waits while something is being sent, so long at most: not for a store that does not answer, nor for topics that refuse."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._task is not None and self._outbox.values and not self._is_stuck():
                    self._passed.clear()
                    await self._passed.wait()

    def _is_stuck(self) -> bool:
        return bool(self._store.why) or set(self._outbox.topics()) <= {
            topic for topic, obstacle in self._obstacle_by_topic.items() if obstacle.why
        }

    def nudge(self) -> None:
        """The store has answered somebody: no need to wait any longer."""
        self._nudged.set()

    async def empty(self, timeout_s: float) -> None:
        """Waits until nothing waits in the outbox any more."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._outbox.values:
                    self._emptied.clear()
                    await self._emptied.wait()
        except TimeoutError:
            raise TimedOut(f"{self._outbox.values:,} values still wait in {self._outbox.path}: `stats` says what is in the way") from None

    def stats(self) -> dict[str, object]:
        return {
            "waiting": self._outbox.values,
            "waiting_bytes": self._outbox.size,
            "drained": self.drained,
            "batches": self.batches,
            "retries": self.retries,
            "unreachable": self._store.why,
            "blocked": {topic: obstacle.why for topic, obstacle in self._obstacle_by_topic.items() if obstacle.why},
        }

    # --- inside ----------------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            self._outbox.arrived.clear()
            self._nudged.clear()
            moved = away = False
            for topic in self._outbox.topics():
                obstacle = self._obstacle_by_topic.setdefault(topic, _Obstacle())
                if obstacle.until > clock():
                    continue
                try:
                    sent = await self._send_one_batch(topic)
                except (StoreUnreachable, TimeoutError) as error:
                    self._stopped(self._store, error, f"{self._backend.url} for {self._outbox.values:,} values in the outbox")
                    away = True
                    break
                except Exception as error:
                    # Nothing that goes wrong with one topic may end the draining of the others: it waits, and is told.
                    self._right_by_topic.pop(topic, None)
                    self._stopped(obstacle, error, f"{self._outbox.pending(topic):,} values of {topic!r} in the outbox")
                else:
                    self._obstacle_by_topic.pop(topic)
                    if sent:
                        self._store, moved = _Obstacle(), True
            if not self._outbox.values:
                self._emptied.set()
            self._passed.set()
            if not moved:
                await self._wait(clock(), away)

    async def _wait(self, now: float, away: bool) -> None:
        """While the store does not answer, what comes in is no reason to try earlier; a store that answers somebody is. A pause that is
        over by now, because this process was stopped, is over: taken for none, it would last until the next value comes."""
        if away:
            waits_for, wait_s = self._nudged, max(self._store.until - now, 0.0)
        else:
            waits_for = self._outbox.arrived
            pauses = (max(obstacle.until - now, 0.0) for obstacle in self._obstacle_by_topic.values() if obstacle.why)
            wait_s = min(pauses, default=LOOK_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await waits_for.wait()

    async def _send_one_batch(self, topic: str) -> bool:
        outbox, backend = self._outbox, self._backend
        waiting = await outbox.waiting(topic, backend.batch_values, backend.batch_bytes)
        if waiting is None:  # it is on its way to the disk, and will tell
            return False
        right = self._right_by_topic.get(topic)
        if right is None:
            grant = await self._bounded(backend.register(topic, outbox.node, options=waiting.options))
            options = waiting.options or (await self._bounded(backend.info(topic))).options
            right = self._right_by_topic[topic] = _Right(grant, grant.number, options)
        check_keys(topic, right.options, bool(waiting.entries[0].key))  # nobody may have known what the topic is when they came
        first = waiting.first
        if first is None:
            first = right.newest + STRIDE
            await outbox.number(waiting, first)
        await self._bounded(backend.publish(right.grant, first, waiting.entries))
        await outbox.remove(waiting)
        right.newest = max(right.newest, first + len(waiting.entries) - 1)
        self.drained += len(waiting.entries)
        self.batches += 1
        if not outbox.pending(topic):
            # From here on the publisher writes by itself again, with a right of its own that ends this one.
            self._right_by_topic.pop(topic)
        return True

    async def _bounded(self, call: Awaitable[T]) -> T:
        async with asyncio.timeout(self._call_s):
            return await call

    def _stopped(self, obstacle: _Obstacle, error: Exception, what: str) -> None:
        why = str(error) or "it took too long"
        if why != obstacle.why:
            log.warning("waiting: %s: %s", what, why)
        self.retries += 1
        pause = min(self._retry_limit_s, self._retry_s * 2 ** min(obstacle.times, 32)) * self._chance.uniform(0.5, 1.0)
        obstacle.why, obstacle.times = why, obstacle.times + 1
        obstacle.until = asyncio.get_running_loop().time() + pause


class _Obstacle(Struct):
    """What was in the way last time, and when to try again."""

    why: str = ""
    times: int = 0
    until: float = 0.0


class _Right(Struct):
    grant: Grant
    newest: int
    """The publisher's own number of what it last published."""
    options: TopicOptions
