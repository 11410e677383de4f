"""States that are too large for a message: parts in a stream of their own, written before the record that names them.

Every writing makes a new object, under a name that is never used again, so an object that no record names can go. It goes an hour later,
when whoever wrote it has certainly given up writing the record. The name has the digest of the whole: what comes back is what was written.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Set
from hashlib import sha256

from antiphon.errors import BadStore
from antiphon.store.jetstream.faults import Unanswered
from antiphon.store.jetstream.stream import Message, Stream
from antiphon.store.jetstream.subjects import token
from antiphon.store.records import SECOND, Moment

GRACE: Moment = 3_600 * SECOND
_PARTS_AT_ONCE = 16
_PART_BYTES = 128 << 10


class Objects:
    def __init__(self, stream: Stream, prefix: str) -> None:
        self._stream, self._prefix = stream, prefix

    async def put(self, topic: str, data: bytes) -> str:
        """Returns the object's name."""
        name = f"{token(topic)}.{sha256(data).hexdigest()}-{len(data)}-{secrets.token_hex(8)}"
        parts = [data[at : at + _PART_BYTES] for at in range(0, len(data), _PART_BYTES)]
        connection, pause_s = self._stream.connection, 0.02
        deadline = connection.deadline()
        at = 0
        while at < len(parts):
            # A part that was written twice, because its acknowledgement was lost, has the same number: the newest counts.
            messages = [
                Message(f"{self._prefix}.o.{name}.{number}", part) for number, part in enumerate(parts[at : at + _PARTS_AT_ONCE], at)
            ]
            try:
                await self._stream.write(messages)
                at += len(messages)
            except Unanswered as unanswered:
                pause_s = await connection.pause(pause_s, deadline, unanswered.why)
        return name

    async def get(self, name: str) -> bytes | None:
        """None when it is not there any more."""
        digest, size, _ = name.rpartition(".")[2].split("-")
        parts: list[bytes] = []
        for at in range(0, -(-int(size) // _PART_BYTES), _PARTS_AT_ONCE):
            numbers = range(at, min(at + _PARTS_AT_ONCE, -(-int(size) // _PART_BYTES)))
            found = await asyncio.gather(*(self._stream.newest(f"{self._prefix}.o.{name}.{number}") for number in numbers))
            if None in found:
                return None
            parts += [part.data for part in found if part]
        data = b"".join(parts)
        if sha256(data).hexdigest() != digest:
            raise BadStore(self._stream.connection.url, f"the state {name} is damaged")
        return data

    async def sweep(self, topic: str, named: Set[str], now: Moment) -> None:
        """Removes the objects of a topic that no record names any more."""
        state = await self._stream.state(f"{self._prefix}.o.{token(topic)}.>")
        names = {subject.removeprefix(f"{self._prefix}.o.").rpartition(".")[0] for subject in state.subjects or ()}
        for name in sorted(names - named):
            newest = await self._stream.newest(f"{self._prefix}.o.{name}.*")
            if newest is not None and newest.time + GRACE < now:
                await self._stream.purge(f"{self._prefix}.o.{name}.*", newest.place + 1)
