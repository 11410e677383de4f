"""Who runs an agent: one record, changed by compare-and-set, in which the node that runs it beats by the store's time.

A node that has not beaten for the `silence_s` it stated loses the agent to whoever looks next; so it stands still for at most that, and a
third of it. Nobody's own clock decides it. The record saves work and decides nothing: see `running.py` for what fences.

Costs one small write every third of `silence_s`, and for each node that waits one read in the same time.
"""

from __future__ import annotations

import asyncio
from uuid import uuid4

import msgspec
from msgspec import Struct

from antiphon.errors import BadStore, Conflict, Fenced
from antiphon.store.agents.patience import persist
from antiphon.store.reach import Reach
from antiphon.store.records import SECOND, Moment, Record

BEATS = 3
_RELEASE_S = 2.0


class Owner(Struct, frozen=True):
    run: str
    """Of one program's running of the agent; no two are the same."""
    node: str
    beat: Moment
    silence: Moment

    def silent(self, now: Moment) -> bool:
        return now > self.beat + self.silence


class Ownership:
    def __init__(self, reach: Reach, agent: str, node: str, silence_s: float) -> None:
        self._reach, self._agent, self._node = reach, agent, node
        self._key, self._silence = f"agents/{agent}", round(silence_s * SECOND)
        self._run = uuid4().hex
        self._revision = 0

    async def take(self) -> None:
        """Waits until the agent is free, or the node that runs it silent, and has it then."""
        backend = self._reach.backend
        found = await persist(self._reach, lambda: backend.get(self._key))
        while True:
            now = await persist(self._reach, backend.time)
            owner = None if found is None else self._owner(found)
            if owner is None or owner.run == self._run or owner.silent(now):
                try:
                    await self._put(found.revision if found is not None else 0, now)
                    return
                except Conflict:
                    found = await persist(self._reach, lambda: backend.get(self._key))
                    continue
            wait_s = min((owner.beat + owner.silence - now) / SECOND, self._silence / SECOND / BEATS) + 0.01
            revision = 0 if found is None else found.revision
            found = await persist(self._reach, lambda: backend.watch(self._key, revision, wait_s), wait_s)  # noqa: B023

    async def keep(self) -> None:
        """Beats, until the agent is another's: raises Fenced then."""
        backend = self._reach.backend
        while True:
            await asyncio.sleep(self._silence / SECOND / BEATS)
            now = await persist(self._reach, backend.time)
            try:
                await self._put(self._revision, now)
            except Conflict:
                found = await persist(self._reach, lambda: backend.get(self._key))
                owner = None if found is None else self._owner(found)
                if found is None or owner is None or owner.run != self._run:
                    why = f"it is run by {owner.node or 'another'!r} now" if owner is not None else "its record was removed"
                    raise Fenced(f"the agent {self._agent!r} of {self._node!r}", why) from None
                self._revision = found.revision  # an earlier beat, whose acknowledgement was lost

    async def release(self) -> None:
        """Gives the agent up at once, so that nobody has to wait for the silence. Does its best."""
        revision, self._revision = self._revision, 0
        if revision:
            try:
                async with asyncio.timeout(_RELEASE_S):
                    await self._reach.insist(lambda: self._reach.backend.remove(self._key, revision), _RELEASE_S)
            except Exception:  # not reached, closed, or another's already: then the silence tells it
                return

    async def _put(self, revision: int, now: Moment) -> None:
        data = msgspec.json.encode(Owner(self._run, self._node, now, self._silence))
        record = await persist(self._reach, lambda: self._reach.backend.put(self._key, data, revision))
        self._revision = record.revision

    def _owner(self, record: Record) -> Owner:
        try:
            return msgspec.json.decode(record.data, type=Owner)
        except msgspec.MsgspecError as error:
            raise BadStore(self._reach.url, f"the record {self._key} is nothing an agent writes ({error}): remove it") from None
