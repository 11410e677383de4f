"""Group records in a store: read, and changed by compare-and-set, as often as others are faster, up to a bound."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from antiphon.errors import BadStore, Conflict
from antiphon.store.contract import Backend
from antiphon.store.groups import record as rules
from antiphon.store.groups.record import GroupRecord
from antiphon.store.records import Record

ATTEMPTS = 128
"""How often a change is tried: each time somebody else's change was made, so a hundred may change a group at the same moment."""
_PAUSE_S, _PAUSE_MAX_S = 0.002, 0.25

Transition = Callable[[GroupRecord | None], GroupRecord | None]
"""What is to become of a record; the same object: nothing. May be called several times."""


class Entry(NamedTuple):
    """A group record with its revision in the store; revision 0: there is none."""

    record: GroupRecord | None
    revision: int


class Register:
    def __init__(self, backend: Backend, rng: random.Random | None = None) -> None:
        self._backend = backend
        self._rng = rng or random.Random()
        self.conflicts = 0
        self.pause_max_s = _PAUSE_MAX_S

    async def get(self, name: str) -> Entry:
        return self._entry(await self._backend.get(_key(name)))

    async def watch(self, name: str, revision: int, timeout_s: float) -> Entry:
        """The record as soon as it is another than that, or as it is after the time-out."""
        return self._entry(await self._backend.watch(_key(name), revision, timeout_s))

    async def change(
        self, name: str, transition: Transition, prepare: Callable[[GroupRecord], Awaitable[None]] | None = None
    ) -> tuple[Entry, bool]:
        """What the record is after the transition, and whether that was made here. `prepare` is awaited with the record that is about to be
        changed. Raises Conflict when others were faster every time; when it raises StoreUnreachable the change may have been made."""
        pause_s = min(_PAUSE_S, self.pause_max_s)
        for _ in range(ATTEMPTS):
            entry = await self.get(name)
            after = transition(entry.record)
            if after is entry.record:
                return entry, False
            if prepare is not None and entry.record is not None:
                await prepare(entry.record)
            try:
                return await self._write(name, after, entry.revision), True
            except Conflict:
                self.conflicts += 1
                await asyncio.sleep(self._rng.uniform(0, pause_s))
                pause_s = min(2 * pause_s, self.pause_max_s)
        raise Conflict(f"the record of the group {name!r} (in each of {ATTEMPTS} attempts)")

    async def _write(self, name: str, record: GroupRecord | None, revision: int) -> Entry:
        if record is None:
            await self._backend.remove(_key(name), revision)
            return Entry(None, 0)
        written = await self._backend.put(_key(name), rules.encode(record), revision)
        return Entry(record, written.revision)

    def _entry(self, found: Record | None) -> Entry:
        if found is None:
            return Entry(None, 0)
        try:
            return Entry(rules.decode(found.data), found.revision)
        except ValueError as error:
            why = f"its record {found.key!r} is none of a group ({error}): remove it, or use another store"
            raise BadStore(self._backend.url, why) from None


def _key(name: str) -> str:
    return f"group/{name}"
