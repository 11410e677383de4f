"""Who is there: every node of the ring writes the store's time into a record of its own now and then, and is silent when it has not done so
for `node_timeout_s` of store time. Nobody's own clock decides it.

The node states its time-out in the record, so that everybody judges it alike. A beat is due every third of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import msgspec
from msgspec import Struct

from antiphon.errors import BadStore, Conflict
from antiphon.store.contract import Backend
from antiphon.store.records import Moment, Record

PRESENCES = "ring/nodes/"
BEATS = 3
ATTEMPTS = 8


class Presence(Struct, frozen=True):
    name: str
    beat: Moment
    timeout: Moment

    def silent(self, now: Moment) -> bool:
        return now > self.beat + self.timeout


class Heart:
    """Keeps one node's presence."""

    def __init__(self, backend: Backend, node: str, name: str, timeout: Moment) -> None:
        self._backend, self._key = backend, PRESENCES + node
        self._name, self._timeout = name, timeout
        self._beaten: Moment | None = None
        self._revision = 0

    def due(self, now: Moment) -> bool:
        return self._beaten is None or now - self._beaten >= self._timeout // BEATS

    async def beat(self, now: Moment) -> None:
        data = msgspec.json.encode(Presence(self._name, now, self._timeout))
        for _ in range(ATTEMPTS):
            try:
                self._revision = (await self._backend.put(self._key, data, self._revision)).revision
            except Conflict:  # it was removed, because this node was silent, or its last beat got there without an answer
                there = await self._backend.get(self._key)
                self._revision = there.revision if there is not None else 0
            else:
                self._beaten = now
                return

    async def stop(self) -> None:
        with suppress(Conflict):
            await self._backend.remove(self._key, self._revision)


async def presences(backend: Backend, members: Iterable[str]) -> dict[str, tuple[Presence, Record]]:
    """By node: all there are. Members that are not in the list are asked for by name, since it is no snapshot: one that beats while the
    list is made may be missing in it."""
    records = await backend.records(PRESENCES)
    listed = {record.key for record in records}
    missing = [await backend.get(PRESENCES + member) for member in members if PRESENCES + member not in listed]
    found = {}
    for record in (*records, *missing):
        if record is not None:
            try:
                found[record.key.removeprefix(PRESENCES)] = msgspec.json.decode(record.data, type=Presence), record
            except msgspec.MsgspecError as error:
                raise BadStore(backend.url, f"the record {record.key} is nothing a node writes ({error}): remove it") from None
    return found
