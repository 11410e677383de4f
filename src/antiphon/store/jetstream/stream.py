"""One stream, as far as we use it: messages by place, the newest of a subject, conditional batches, removal.

Reads go to the stream's leader (no direct get): a decision made on them is trusted only because the write that follows is conditional.
A write is one message, or an atomic batch of up to 1,000 that is stored as a whole or not at all. It is tried once: whoever gets Unanswered
looks whether it happened. A read costs one question; a write one message per entry and one question.
"""

from __future__ import annotations

import asyncio
import secrets
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from antiphon.errors import StoreFull, TooLarge
from antiphon.store.jetstream.client import frame
from antiphon.store.jetstream.connection import Connection, Fault, Nothing
from antiphon.store.jetstream.faults import MESSAGE_UNKNOWN, STREAM_EXISTS, STREAM_UNKNOWN, Refusal
from antiphon.store.jetstream.moments import parse_moment
from antiphon.store.records import Moment

BATCH_MESSAGES = 1_000
_QUESTIONS = 64
"""Questions under way at once."""
_HEADER_BYTES = 4 << 10
"""What the headers of a message may take."""
ROLLUP = "Nats-Rollup: sub\r\n"
"""The new message of a subject takes the place of those before."""


class Message(NamedTuple):
    subject: str
    data: bytes
    headers: str = ""
    """Lines, each with its end."""


class Stored(NamedTuple):
    """A message as it is in the stream."""

    subject: str
    place: int
    time: Moment
    data: bytes
    headers: bytes


class Condition(NamedTuple):
    """That the newest message of the subject, which may have wildcards, is at this place (0: that there is none)."""

    subject: str
    place: int

    def headers(self) -> str:
        return f"Nats-Expected-Last-Subject-Sequence: {self.place}\r\nNats-Expected-Last-Subject-Sequence-Subject: {self.subject}\r\n"


class Stream:
    def __init__(self, connection: Connection, name: str) -> None:
        self.connection, self.name = connection, name

    # --- reading ---------------------------------------------------------------------------------------------------------------

    async def newest(self, subject: str) -> Stored | None:
        return await self._message({"last_by_subj": subject})

    async def next(self, subject: str, place: int) -> Stored | None:
        """The first message of the subject at this place or behind it."""
        return await self._message({"next_by_subj": subject, "seq": max(1, place)})

    async def _message(self, body: dict[str, object]) -> Stored | None:
        try:
            answer = await self.connection.ask(f"STREAM.MSG.GET.{self.name}", body, _MessageAnswer)
        except Refusal as refusal:
            if refusal.code == MESSAGE_UNKNOWN:
                return None
            raise
        message = answer.message
        assert message is not None, "an answer without an error has a message"
        headers = b64decode(message.hdrs) if message.hdrs else b""
        return Stored(message.subject, message.seq, parse_moment(message.time), b64decode(message.data), headers)

    async def state(self, subjects: str | None = None) -> StreamState:
        """Where the stream begins and ends; with `subjects`, how many messages each of those has."""
        counts: dict[str, int] = {}
        while True:
            body = {"subjects_filter": subjects, "offset": len(counts)} if subjects else {}
            answer = await self.connection.ask(f"STREAM.INFO.{self.name}", body, StreamAnswer)
            page = answer.state.subjects or {}
            counts.update(page)
            if not page or len(counts) >= answer.total:
                answer.state.subjects = counts
                return answer.state

    async def records(self, subjects: str) -> list[Stored]:
        """The newest message of each of these subjects. Also this is the leader's word: a consumer on another server of a cluster may be
        behind, and whoever counts the subscribers there would not know of the one that has just been acknowledged."""
        names = sorted((await self.state(subjects)).subjects or ())
        found: list[Stored] = []
        for at in range(0, len(names), _QUESTIONS):
            answers = await asyncio.gather(*(self.newest(name) for name in names[at : at + _QUESTIONS]))
            found += [stored for stored in answers if stored is not None]
        return found

    # --- writing ---------------------------------------------------------------------------------------------------------------

    async def create(self, config: Mapping[str, object]) -> None:
        """Makes the stream unless it is there, whatever its configuration."""
        try:
            # Looked for first: while a server of a cluster is away, making a stream is refused even if it is there.
            await self.state()
            return
        except Refusal as refusal:
            if refusal.code != STREAM_UNKNOWN:
                raise
        try:
            await self.connection.ask(f"STREAM.CREATE.{self.name}", {"name": self.name, **config}, Nothing)
        except Refusal as refusal:
            if refusal.code != STREAM_EXISTS:
                raise

    async def write(self, messages: Sequence[Message], condition: Condition | None = None, *, vital: bool = False) -> int:
        """Writes all or nothing, once. Returns the place of the last. Raises Mismatch when the condition does not hold. What is `vital`,
        because room is made by it, may use the room that is kept for this."""
        # Half a batch, sent by somebody who gave up, would occupy the server until it is forgotten there.
        try:
            return await self.connection.whole(self._write(messages, condition))
        except StoreFull:
            if not vital or self.connection.ballast is None:
                raise
        await self.connection.ballast.throw_off()
        return await self.connection.whole(self._write(messages, condition))

    async def _write(self, messages: Sequence[Message], condition: Condition | None) -> int:
        connection, (subject, data, headers) = self.connection, messages[-1]
        limit = connection.payload_bytes
        for message in messages:
            if len(message.data) > limit - _HEADER_BYTES:
                raise TooLarge(len(message.data), limit - _HEADER_BYTES, "a message of this server", "make it smaller")
        opening, before = condition.headers() if condition else "", b""
        if len(messages) > 1:
            batch = f"Nats-Batch-Id: {secrets.token_hex(8)}\r\nNats-Batch-Sequence: "
            frames: list[bytes] = []
            for number, message in enumerate(messages[:-1], 1):
                frames.append(frame(message.subject, "", f"{message.headers}{batch}{number}\r\n{opening}", message.data))
                opening = ""
            before = b"".join(frames)
            headers = f"{headers}{batch}{len(messages)}\r\nNats-Batch-Commit: 1\r\n"
        arrival = await connection.request(subject, data, headers + opening, before=before)
        return connection.decoded(arrival, _Acknowledgement).seq

    # --- removing --------------------------------------------------------------------------------------------------------------

    async def purge(self, subject: str, before: int) -> int:
        """Removes the messages of the subject that lie before this place. Returns how many."""
        answer = await self.connection.ask(f"STREAM.PURGE.{self.name}", {"filter": subject, "seq": before}, _Purged)
        return answer.purged

    async def delete(self, place: int, *, overwrite: bool = False) -> bool:
        try:
            await self.connection.ask(f"STREAM.MSG.DELETE.{self.name}", {"seq": place, "no_erase": not overwrite}, Nothing)
        except Refusal:
            return False  # it is not there any more
        return True


class _Message(Struct):
    subject: str
    seq: int
    time: str
    data: str = ""
    hdrs: str = ""


class _MessageAnswer(Struct):
    error: Fault | None = None
    message: _Message | None = None


class StreamState(Struct):
    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    last_seq: int = 0
    subjects: dict[str, int] | None = None


class StreamAnswer(Struct):
    error: Fault | None = None
    state: StreamState = msgspec.field(default_factory=StreamState)
    total: int = 0


class _Acknowledgement(Struct):
    error: Fault | None = None
    seq: int = 0


class _Purged(Struct):
    error: Fault | None = None
    purged: int = 0
