"""Messages of a stream in great numbers: a consumer of our own on the server, from which we pull batches.

The consumer is ephemeral and acknowledges nothing: where we are is known here alone. When it is lost (its server died, nobody pulled for a
while, a message is missing between two, a pull was given up half-way) another one is made that begins behind the last message that was
handed on. A pull waits on the server for its first message, so nobody polls.

In a cluster the consumer may be on a server that is a moment behind: it delivers everything in order, but that it has nothing does not mean
that there is nothing. Whoever must know asks the stream's leader.

Keeps what one pull brought: at most `limit` messages and `PULL_BYTES` (or one message, if that is larger).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from antiphon.errors import StoreUnreachable
from antiphon.store.jetstream import client as nats_client
from antiphon.store.jetstream.connection import Fault
from antiphon.store.jetstream.faults import Unanswered
from antiphon.store.jetstream.stream import Stream
from antiphon.store.records import SECOND

if TYPE_CHECKING:
    from nats.aio.subscription import Subscription

PULL_BYTES = 16 << 20
_IDLE_S = 60
"""The server forgets a consumer that nobody pulls from for so long."""
_WAIT_S = 10.0
"""One pull waits no longer on the server; then there is another."""
_GRACE_S = 2.0
_RETRY_S = 1.0
"""How long a pull that is not answered is tried again. Whoever reads repeats it, and must know soon that the store does not answer."""
_MESSAGE_BYTES = 64 << 10
"""What headers and subject of one message may add."""
_FIRST_PAUSE_S = 0.02
_NOTHING_THERE = (b"NATS/1.0 404", b"NATS/1.0 408")
_HEARTBEAT = b"NATS/1.0 100"


Delivery = tuple[bytes, bytes, bytes, bytes]
"""Subject, reply, data and headers. The reply ends with the place, the consumer's own number, the stamp, and how many are behind."""


class Puller:
    def __init__(self, stream: Stream, subjects: Sequence[str], start: int = 1, *, headers_only: bool = False) -> None:
        """From the place `start` on, with or without the data."""
        self._stream, self._subjects, self._headers_only = stream, list(subjects), headers_only
        self.next = max(1, start)
        """The place from which the next message comes."""
        self._consumer: _Consumer | None = None

    async def pull(self, limit: int, wait_s: float) -> list[Delivery]:
        """Up to `limit` messages; waits at most `wait_s` for the first one. Empty when there was none."""
        connection = self._stream.connection
        until, deadline, pause_s = connection.now() + wait_s, 0.0, _FIRST_PAUSE_S
        while True:
            consumer, self._consumer = self._consumer or _Consumer(self._stream), None
            try:
                if not consumer.name:
                    await consumer.make(self._subjects, self.next, self._headers_only, deadline or None)
                got = await consumer.pull(limit, min(_WAIT_S, max(0.0, until - connection.now())))
            except Unanswered as unanswered:
                consumer.abandon()
                deadline = deadline or min(connection.deadline(), connection.now() + _RETRY_S)
                pause_s = await connection.pause(pause_s, deadline, unanswered.why)
                continue
            except BaseException:
                consumer.abandon()
                raise
            self._consumer = consumer
            if got:
                self.next = place_of(got[-1]) + 1
            if got or connection.now() >= until:
                return got
            deadline, pause_s = 0.0, _FIRST_PAUSE_S

    async def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.abandon()


class _Consumer:
    """One consumer on the server. Used until something goes wrong, and then never again: what may still arrive for it finds nobody."""

    def __init__(self, stream: Stream) -> None:
        self._stream, self._connection = stream, stream.connection
        self.name = ""
        self._inbox = ""
        self._subscription: Subscription | None = None
        self._pulls = 0
        self._wanted = 0
        self._number = 0
        """The consumer's own number of its last message."""
        self._arrived: list[Delivery] = []
        self._status = b""
        self._woken: asyncio.Future[None] | None = None

    async def make(self, subjects: Sequence[str], start: int, headers_only: bool, deadline: float | None) -> None:
        """Create it on the server. Raises StoreUnreachable if that is not answered until `deadline` (None: within the time of a call)."""
        client = self._connection.client
        self._inbox = client.new_inbox()
        self._subscription = await nats_client.listen(client, f"{self._inbox}.*", self._deliver)
        config: dict[str, object] = {
            "ack_policy": "none",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": _IDLE_S * SECOND,
            "headers_only": headers_only,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": start,
        }
        if len(subjects) == 1:
            config["filter_subject"] = subjects[0]
        else:
            config["filter_subjects"] = subjects
        body = {"stream_name": self._stream.name, "config": config}
        self.name = (await self._connection.ask(f"CONSUMER.CREATE.{self._stream.name}", body, _Made, deadline=deadline)).name

    async def pull(self, limit: int, wait_s: float) -> list[Delivery]:
        connection = self._connection
        self._pulls += 1
        self._wanted, self._status, self._arrived = limit, b"", []
        self._woken = woken = asyncio.get_running_loop().create_future()
        wish: dict[str, object] = {
            "batch": limit,
            "no_wait": True,  # with `expires` it waits for the first message only
            "max_bytes": max(PULL_BYTES, connection.payload_bytes + _MESSAGE_BYTES),
        }
        if wait_s > 0:
            wish["expires"] = max(1_000_000, round(wait_s * SECOND))
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream.name}.{self.name}"
        try:
            await connection.send(nats_client.frame(subject, f"{self._inbox}.{self._pulls}", "", msgspec.json.encode(wish)))
            if not await connection.wait(woken, wait_s + _GRACE_S):
                raise Unanswered("the consumer does not answer")
        finally:
            self._woken = None
        arrived = self._arrived
        if not arrived and not self._status.startswith(_NOTHING_THERE):
            raise Unanswered(self._status[9:80].split(b"\r")[0].decode("ascii", "replace"))
        self._number += len(arrived)
        if arrived and int(_facts(arrived[-1])[1]) != self._number:
            raise Unanswered("a message is missing")
        return arrived

    def abandon(self) -> None:
        """Tells the server, without waiting for anything."""
        connection, subscription = self._connection, self._subscription
        if connection.closed or subscription is None:
            return

        async def farewell() -> None:
            with suppress(Unanswered, StoreUnreachable):
                await nats_client.end(connection.client, subscription)
                if self.name:
                    await connection.send(nats_client.frame(f"$JS.API.CONSUMER.DELETE.{self._stream.name}.{self.name}", "", "", b""))

        connection.later(farewell())

    def _deliver(self, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        """Called for every message: does as little as can be done."""
        woken = self._woken
        if woken is None or woken.done():
            return
        if reply:
            arrived = self._arrived
            arrived.append((subject, reply, data, headers))
            # A pull ends with its last message or with a status, not when nothing is behind a message: one that was written a moment
            # later belongs to the same pull, and would arrive when nobody expects it any more.
            if len(arrived) >= self._wanted:
                woken.set_result(None)
        elif subject.endswith(b".%d" % self._pulls) and not headers.startswith(_HEARTBEAT):
            self._status = headers
            woken.set_result(None)


class _Made(Struct):
    error: Fault | None = None
    name: str = ""


def _facts(delivery: Delivery) -> list[bytes]:
    """Place, the consumer's own number, stamp, and how many are behind."""
    return delivery[1].rsplit(b".", 4)[1:]


def place_of(delivery: Delivery) -> int:
    return int(_facts(delivery)[0])
