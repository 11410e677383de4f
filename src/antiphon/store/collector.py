"""The collector: removes from the store what nobody needs any more, by the horizon of the ring and never by the clock alone.

`collect` does it once, from anywhere. A `Collector` does it now and then in a node that runs for long; any number may run, and those that
come while another has done it within the interval have nothing to do. None is needed: one that is killed is followed by the next.

What may go is decided by `retention.py`, what holds the horizon back is told in `token.py`. Costs: two reads for each who is not the one
that collects; for that one a round of the ring and a call of the store for each topic.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from random import Random

import msgspec
from msgspec import Struct

from antiphon.errors import AntiphonError, Conflict, InvalidOption, UnknownTopic
from antiphon.store.contract import Backend
from antiphon.store.ending import end
from antiphon.store.horizon import horizon
from antiphon.store.records import SECOND, Collected, Moment
from antiphon.store.ring import RingNode

COLLECTED = "ring/collected"
INTERVAL_S = 60.0
PATIENCE_S = 5.0

log = logging.getLogger("antiphon.store")


async def collect(
    backend: Backend, topics: Iterable[str] | None = None, *, ring: RingNode | None = None, patience_s: float = PATIENCE_S
) -> dict[str, Collected]:
    """Removes from these topics, or from all, what nobody needs; says for each how far it went. With a node of the ring the horizon is
    that of a round begun now, if the others answer within `patience_s`; else the newest there is. Raises UnknownTopic."""
    found = await ring.horizon(patience_s) if ring is not None and ring.is_member else await horizon(backend)
    now = await backend.time()
    if topics is not None:
        return {topic: await backend.collect(topic, found.of(topic, now)) for topic in topics}
    collected = {}
    for info in await backend.topics():
        with suppress(UnknownTopic):  # gone meanwhile
            collected[info.name] = await backend.collect(info.name, found.of(info.name, now))
    return collected


class Collector:
    def __init__(
        self, backend: Backend, ring: RingNode | None = None, *, interval_s: float = INTERVAL_S, chance: Random | None = None
    ) -> None:
        if not 0 < interval_s < float("inf"):
            raise InvalidOption("interval_s", interval_s, "say how many seconds lie between two collections")
        self._backend, self._ring = backend, ring
        self._interval_s = interval_s
        self._chance = chance or Random()
        self._task: asyncio.Task[None] | None = None
        self.collections = self.removed = self.failures = 0

    def start(self) -> None:
        self._task = self._task or asyncio.get_running_loop().create_task(self._run(), name=f"collector of {self._backend.url}")

    async def stop(self) -> None:
        task, self._task = self._task, None
        await end(task)

    def stats(self) -> dict[str, int]:
        return {"collections": self.collections, "removed": self.removed, "failures": self.failures}

    async def turn(self) -> bool:
        """Collects if nobody has within the interval; says whether it did."""
        now = await self._backend.time()
        record = await self._backend.get(COLLECTED)
        if record is not None and now - _when(record.data) < round(self._interval_s * SECOND):
            return False
        try:
            await self._backend.put(COLLECTED, msgspec.json.encode(Turn(now)), 0 if record is None else record.revision)
        except Conflict:  # somebody else does it
            return False
        collected = await collect(self._backend, ring=self._ring)
        self.collections += 1
        self.removed += sum(result.removed for result in collected.values())
        return True

    async def _run(self) -> None:
        trouble = ""
        while True:
            # At once would be together with everybody who was started by the same hand.
            await asyncio.sleep(self._interval_s * self._chance.uniform(0.5, 1.0))
            try:
                await self.turn()
                trouble = ""
            except (AntiphonError, TimeoutError) as error:
                self.failures += 1
                if str(error) != trouble:
                    log.warning("cannot collect in %s: %s", self._backend.url, error)
                trouble = str(error)


class Turn(Struct, frozen=True):
    at: Moment


def _when(data: bytes) -> Moment:
    """A record that says nothing is as good as none: collecting once too often does no harm."""
    try:
        return msgspec.json.decode(data, type=Turn).at
    except msgspec.MsgspecError:
        return -(1 << 62)
