"""Antiphon as an application uses it: each member is a node with one group, bound to the loopback interface, through the public calls.
As `antiphon` over TCP its members, which are on one machine, meet by the short way that nodes take there; as `antiphon-tcp` they do not.

Member 0 creates the group, the others join it there; the work begins when all are in one view. Floods hand over `batch` messages at a time
with `send_many` and read with `group.batches()`, or message by message. Every message is given to a function that does nothing, as in the
bare loop. Of every batch the first payload, and message by message every payload, is compared with what was sent under that number.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias, cast

from antiphon.api.group import Group
from antiphon.api.message import Message
from antiphon.bench.seat import Seat, paced, run
from antiphon.bench.systems import ANTIPHON_TCP
from antiphon.bench.work import Pool, payload, stamp_of
from antiphon.model.ids import MemberId, name_of
from antiphon.runtime.node import Node
from antiphon.trace.trace import Trace

_JOIN_S = 60.0
_SEND_S = 30.0
_SETTLE_S = 0.01
_NAME = "bench"

Application: TypeAlias = Callable[[int, bytes], None]


def take_part(seat: Seat) -> None:
    run(_take_part(seat))


async def _take_part(seat: Seat) -> None:
    work = seat.work
    first = await _found(seat) if seat.me == 0 else None
    address = (await seat.meet_soon(first[0].address if first is not None else None))[0]
    node, group = first if first is not None else await _join(seat, address)
    try:
        reader = _Reader(seat, group)
        reading = asyncio.create_task(reader.read())
        async with asyncio.timeout(_JOIN_S):
            while len(group.view.members) < work.members:
                await asyncio.sleep(_SETTLE_S)
        await seat.meet_soon("together")
        seat.begin()
        sent = await (_flood if work.kind == "flood" else _pace)(seat, group)
        finishing = asyncio.create_task(seat.finish_soon(sent))
        while not finishing.done():
            reader.settle()
            await asyncio.wait((finishing, reading), timeout=_SETTLE_S, return_when=asyncio.FIRST_COMPLETED)
            if reading.done() and not finishing.done():
                reading.result()  # raises what ended it
                raise AssertionError("the group ended while it was read")
        await finishing
        reading.cancel()
    finally:
        await node.close(timeout=10.0 if work.trace else 1.0)


async def _found(seat: Seat) -> tuple[Node, Group]:
    node = _node(seat)
    await node.start()
    work = seat.work
    return node, await node.create(_NAME, order=work.order, multicast=work.multicast, **work.options)


async def _join(seat: Seat, address: str) -> tuple[Node, Group]:
    node = _node(seat, [address])
    await node.start()
    return node, await node.join(_NAME, at=[address], create=True, history="none", timeout=_JOIN_S)


def _node(seat: Seat, seeds: list[str] | None = None) -> Node:
    transport = seat.work.transport
    # Benchmarks stay on this machine: there is no multicast on the loopback interface.
    more: dict[str, Any] = {"multicast": None} if transport == "udp" else {}
    more |= {"short_way": False} if seat.work.system == ANTIPHON_TCP else {}
    more |= {"trace": Trace(directory=seat.work.trace, run="bench")} if seat.work.trace else {}
    return Node(f"member{seat.me}", transport=transport, bind="127.0.0.1:0", seeds=seeds or [], **more)


async def _flood(seat: Seat, group: Group) -> int:
    work, sent, pool = seat.work, 0, Pool(seat.me, seat.work.size)
    while not seat.over():
        if work.sends(seat.me):
            await group.send_many(pool.slice(sent + 1, work.batch), timeout=_SEND_S)
            sent += work.batch
        else:
            await asyncio.sleep(_SETTLE_S)
    return sent


async def _pace(seat: Seat, group: Group) -> int:
    async def send(number: int, clock_ns: int) -> None:
        await group.send(payload(seat.me, number, seat.work.size, clock_ns), timeout=_SEND_S)

    return await paced(seat, send)


class _Reader:
    """Reads the group and tells the witness."""

    def __init__(self, seat: Seat, group: Group) -> None:
        self._seat, self._group = seat, group
        self._pools = [Pool(member, seat.work.size) for member in range(seat.work.members)]
        self._sender, self._first, self._last = 0, 1, 0
        """The run that is being read message by message and that the witness has not been told."""

    async def read(self) -> None:
        if self._seat.work.kind == "pace":
            await self._read_stamps()
        elif self._seat.work.iterate == "batches":
            await self._read_batches()
        else:
            await self._read_messages()

    def settle(self) -> None:
        """Tells the witness what it has not been told, when nobody knows whether more will come."""
        if self._last >= self._first:
            self._seat.witness.take(self._sender, self._first, self._last)
            self._first = self._last + 1

    async def _read_batches(self) -> None:
        take, place_by_sender, application = self._seat.witness.take, _Places(), _application
        async for batch in self._group.batches():
            sender, payloads = place_by_sender[batch.sender], batch.payloads
            self._compare(sender, batch.first, payloads[0])
            for data in payloads:
                application(sender, data)
            take(sender, batch.first, batch.last)

    async def _read_messages(self) -> None:
        place_by_sender, application, pools = _Places(), _application, self._pools
        batch, pool = None, pools[0]
        async for message in cast(AsyncIterator[Message], aiter(self._group)):  # nobody sends letters here
            number, data = message.seqno, message.data
            if message.batch is not batch or number != self._last + 1:
                self.settle()
                batch = message.batch
                self._sender, self._first = place_by_sender[batch.sender], number
                pool = pools[self._sender]
            self._last = number
            if not pool.holds(number, data):
                self._compare(self._sender, number, data)
            application(self._sender, data)

    async def _read_stamps(self) -> None:
        take, place_by_sender, delayed, timed = self._seat.witness.take, _Places(), self._seat.delayed, self._seat.work.timed
        async for batch in self._group.batches():
            sender = place_by_sender[batch.sender]
            for number, data in enumerate(batch.payloads, batch.first):
                stamp = stamp_of(data)
                if timed:
                    delayed(sender, stamp.sent_ns)
                if stamp.sender != sender or stamp.number != number:
                    self._seat.witness.complain(f"message {number:,} of member {sender} holds that of {stamp.sender}, {stamp.number:,}")
            take(sender, batch.first, batch.last)

    def _compare(self, sender: int, number: int, data: bytes) -> None:
        if not self._pools[sender].holds(number, data):
            self._seat.witness.complain(f"message {number:,} of member {sender} is not what was sent")


class _Places(dict[MemberId, int]):
    """Which member of the benchmark a member of the group is."""

    def __missing__(self, member: MemberId) -> int:
        place = self[member] = int(name_of(member).removeprefix("member"))
        return place


def _application(sender: int, data: bytes) -> None:
    """Does nothing, once per message."""
