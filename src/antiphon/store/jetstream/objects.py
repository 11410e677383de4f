"""States that are too large for a message: parts in a stream of their own, written before the record that names them.

Every writing makes a new object, under a name that is never used again, so an object that no record names can go. It goes an hour later,
when whoever wrote it has certainly given up writing the record. The name has the digest of the whole: what comes back is what was written.
"""

from __future__ import annotations

import secrets
from collections.abc import Set
from hashlib import sha256

from antiphon.errors import BadStore
from antiphon.store.jetstream.faults import Unanswered
from antiphon.store.jetstream.puller import Puller
from antiphon.store.jetstream.stream import Message, Stream
from antiphon.store.jetstream.subjects import token
from antiphon.store.records import SECOND, Moment

GRACE: Moment = 3_600 * SECOND
_PARTS_AT_ONCE = 100
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
            # A part that was written twice, because its acknowledgement was lost, has the same number: the first one counts.
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
        parts: dict[int, bytes] = {}
        puller = Puller(self._stream, [f"{self._prefix}.o.{name}.*"])
        missing = -(-int(size) // _PART_BYTES)
        try:
            while missing and (batch := await puller.pull(_PARTS_AT_ONCE, 0)):
                for subject, _, part, _ in batch:
                    number = int(subject.rpartition(b".")[2])
                    missing -= number not in parts
                    parts[number] = part
        finally:
            await puller.close()
        if missing:
            return None
        data = b"".join(parts[number] for number in sorted(parts))
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
