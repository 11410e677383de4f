"""Records: one message per key in a stream that keeps the newest only; the revision is its place, and a removal is a tombstone.

Each part of a key's path is a token of the subject, so that everything below a path is one subscription. A tombstone is put aside after a
minute, by whoever lists the records and sees it: by then nobody waits for it any more. A change costs one round trip; a watch waits in a
consumer on the server.
"""

from __future__ import annotations

from antiphon.errors import Conflict
from antiphon.store.jetstream.clock import Clock
from antiphon.store.jetstream.faults import Mismatch, Unanswered
from antiphon.store.jetstream.puller import Puller
from antiphon.store.jetstream.stream import Condition, Message, Stored, Stream
from antiphon.store.jetstream.subjects import name_of, token
from antiphon.store.records import SECOND, Moment, Record

_GONE = "Antiphon-Gone: 1\r\n"
_FIRST_PAUSE_S = 0.002
_MOURNED: Moment = 60 * SECOND
_BURIALS = 100


class Recording:
    def __init__(self, stream: Stream, prefix: str, clock: Clock) -> None:
        self._stream, self._prefix, self._clock = stream, f"{prefix}.r", clock

    async def get(self, key: str) -> Record | None:
        stored = await self._stream.newest(self._subject(key))
        return None if stored is None or _is_gone(stored) else Record(key, stored.data, stored.place)

    async def put(self, key: str, data: bytes, revision: int) -> Record:
        return Record(key, data, await self._replace(key, data, "", revision))

    async def remove(self, key: str, revision: int) -> None:
        if revision or await self.get(key) is not None:
            await self._replace(key, b"", _GONE, revision)

    async def records(self, prefix: str) -> list[Record]:
        path, found, gone = prefix.rpartition("/")[0], [], []
        below = f"{self._subject(path)}.>" if "/" in prefix else f"{self._prefix}.>"
        for stored in await self._stream.records(below):
            if _is_gone(stored):
                gone.append(stored)
            elif (key := self._key(stored.subject)).startswith(prefix):
                found.append(Record(key, stored.data, stored.place))
        await self._bury(gone)
        return sorted(found)

    async def watch(self, key: str, revision: int, timeout_s: float) -> Record | None:
        connection = self._stream.connection
        until = connection.now() + timeout_s
        stored = await self._stream.newest(self._subject(key))
        puller = Puller(self._stream, [self._subject(key)], (stored.place if stored else 0) + 1)
        try:
            while True:
                record = None if stored is None or _is_gone(stored) else Record(key, stored.data, stored.place)
                if (record.revision if record else 0) != revision or connection.now() >= until:
                    return record
                if await puller.pull(1, max(0.0, until - connection.now())) or connection.now() >= until:
                    stored = await self._stream.newest(self._subject(key))
        finally:
            await puller.close()

    async def _replace(self, key: str, data: bytes, headers: str, revision: int) -> int:
        connection, subject = self._stream.connection, self._subject(key)
        deadline, pause_s = connection.deadline(), _FIRST_PAUSE_S
        unsure, expected = False, revision
        while True:
            try:
                return await self._stream.write([Message(subject, data, headers)], Condition(subject, expected), vital=True)
            except Mismatch:
                stored = await self._stream.newest(subject)
                there = 0 if stored is None or _is_gone(stored) else stored.place
                if there != revision:
                    if unsure and stored is not None and stored.data == data and _is_gone(stored) == bool(headers):
                        return stored.place
                    raise Conflict(f"the record {key!r}") from None
                # There is none: then it is a tombstone that is replaced. Or another write that is under way has not come to its end.
                expected = stored.place if stored else 0
                pause_s = await connection.pause(pause_s, deadline, "another write of the record is under way")
            except Unanswered as unanswered:
                unsure = True
                pause_s = await connection.pause(pause_s, deadline, unanswered.why)

    async def _bury(self, gone: list[Stored]) -> None:
        if gone:
            now = await self._clock.now()
            for stored in [stored for stored in gone if stored.time + _MOURNED < now][:_BURIALS]:
                await self._stream.purge(stored.subject, stored.place + 1)  # one that was made anew lies behind it

    def _subject(self, key: str) -> str:
        return ".".join((self._prefix, *(token(part) for part in key.split("/"))))

    def _key(self, subject: str) -> str:
        return "/".join(name_of(part) for part in subject.removeprefix(f"{self._prefix}.").split("."))


def _is_gone(stored: Stored) -> bool:
    return _GONE.encode() in stored.headers
