"""Who is there: each member of a group on a store has a record of its own, in which it beats, by the store's time.

A member beats every third of the group's `silence_s`; who has not beaten for all of it counts as away. Nobody's clock but the store's
matters. A member writes its first beat before it is in the group's record, so one without a beat is away for certain.

Costs one small write per member and beat, and one read of all of the group's beats per member and beat.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from antiphon.errors import Conflict
from antiphon.model.ids import GroupId, MemberId
from antiphon.store.contract import Backend
from antiphon.store.records import SECOND

BEATS = 3
"""How often a member beats within the time after which it counts as away."""


class Presence:
    def __init__(self, backend: Backend, group: GroupId, me: MemberId) -> None:
        self._backend, self._prefix, self._me = backend, f"presence/{group}/", me
        self._revision = 0

    async def beat(self) -> None:
        key = self._prefix + self._me
        data = msgspec.msgpack.encode(await self._backend.time())
        try:
            self._revision = (await self._backend.put(key, data, self._revision)).revision
        except Conflict:
            # It was taken away by those who thought that this member was, or an earlier beat was written without this member knowing.
            found = await self._backend.get(key)
            self._revision = (await self._backend.put(key, data, 0 if found is None else found.revision)).revision

    async def end(self) -> None:
        found = await self._backend.get(self._prefix + self._me)
        if found is not None:
            await self._remove(found.key, found.revision)

    async def away(self, members: Iterable[MemberId], silence_s: float) -> tuple[MemberId, ...]:
        """Those of the members that have been silent for so long."""
        beats = {found.key.removeprefix(self._prefix): found for found in await self._backend.records(self._prefix)}
        since = await self._backend.time() - round(silence_s * SECOND)
        return tuple(
            member for member in members if member != self._me and (member not in beats or _moment(beats[member].data) < since)
        )

    async def forget(self, members: Iterable[MemberId], silence_s: float) -> None:
        """Removes what those left who are still away."""
        since = await self._backend.time() - round(silence_s * SECOND)
        for member in members:
            found = await self._backend.get(self._prefix + member)
            if found is not None and _moment(found.data) < since:
                await self._remove(found.key, found.revision)

    async def discard(self, members: Iterable[MemberId]) -> None:
        """Remove the beats of members that were replaced, however recent they are."""
        for member in members:
            found = await self._backend.get(self._prefix + member)
            if found is not None:
                await self._remove(found.key, found.revision)

    async def _remove(self, key: str, revision: int) -> None:
        try:
            await self._backend.remove(key, revision)
        except Conflict:
            return  # it has beaten again


def _moment(data: bytes) -> int:
    """Of a beat; one that cannot be read is as old as can be."""
    try:
        return msgspec.msgpack.decode(data, type=int)
    except msgspec.DecodeError:
        return 0
