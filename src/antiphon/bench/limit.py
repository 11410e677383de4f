"""The bare loop: what CPython, its event loop and msgspec allow for this design, with nothing else in the way.

Members in a full TCP mesh send batches and deliver everything, message by message, to a function that does nothing. Member 0 also decides
the order, in frames of their own that name ranges: one limit for all orders. Only where delays are measured, and the order is fifo, are
there no such frames. No repair, no views, no membership, no security, no discovery: a row to compare with, not a system.

A sender stops while the kernel takes no more from it, and while `window` of its own messages are not delivered.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import cast

import msgspec

from antiphon.bench.seat import Seat, paced, run
from antiphon.bench.work import Pool, payload, stamp_of

_BUFFER_BYTES = 1 << 22
_CONNECT_S = 20.0
_LENGTH = struct.Struct("<I")


class Frame(msgspec.Struct, array_like=True, gc=False):
    """A batch of `payloads` from `first` on, or with `orders` the decision: which (sender, first) come next."""

    sender: int
    first: int
    payloads: list[bytes] | None
    orders: list[tuple[int, int]] | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Frame).decode


class Member:
    """Keeps the batches whose turn has not come, and the decisions that are not carried out."""

    def __init__(self, seat: Seat, application: Callable[[int, bytes], None]) -> None:
        self.seat, self.me = seat, seat.me
        self.links: list[asyncio.WriteTransport] = []
        self.paused = 0
        self._application, self._take = application, seat.witness.take
        self._total = seat.work.order == "total" or seat.work.kind == "flood"
        self._waiting: dict[tuple[int, int], list[bytes]] = {}
        self._orders: list[tuple[int, int]] = []
        """Decided and not delivered, from `_at` on."""
        self._at = 0
        self._undecided: list[tuple[int, int]] = []
        self._soon = asyncio.get_running_loop().call_soon

    def cast(self, frame: Frame) -> None:
        """Sends to all, and receives it itself."""
        body = _encode(frame)
        wire = _LENGTH.pack(len(body)) + body
        for link in self.links:
            link.write(wire)
        self.receive(frame)

    def receive(self, frame: Frame) -> None:
        if frame.payloads is None:
            self._orders += frame.orders or ()
            self._release()
        elif not self._total:
            self._deliver(frame.sender, frame.first, frame.payloads)
        else:
            place = (frame.sender, frame.first)
            self._waiting[place] = frame.payloads
            if self.me:
                self._release()
            else:
                self._undecided.append(place)
                if len(self._undecided) == 1:
                    self._soon(self._decide)

    def _decide(self) -> None:
        """Once for all that came in this turn of the event loop."""
        orders, self._undecided = self._undecided, []
        self.cast(Frame(0, 0, None, orders))

    def _release(self) -> None:
        orders, at, waiting = self._orders, self._at, self._waiting
        end = len(orders)
        while at < end:
            place = orders[at]
            payloads = waiting.pop(place, None)
            if payloads is None:
                break
            at += 1
            self._deliver(place[0], place[1], payloads)
        if at == end:
            orders.clear()
            at = 0
        self._at = at

    def _deliver(self, sender: int, first: int, payloads: list[bytes]) -> None:
        application = self._application
        for data in payloads:
            application(sender, data)
        self._take(sender, first, first + len(payloads) - 1)


class _Link(asyncio.Protocol):
    def __init__(self, member: Member) -> None:
        self._member, self._rest = member, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.WriteTransport, transport).set_write_buffer_limits(_BUFFER_BYTES)

    def pause_writing(self) -> None:
        self._member.paused += 1

    def resume_writing(self) -> None:
        self._member.paused -= 1

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        at, end, receive = 0, len(data), self._member.receive
        view = memoryview(data)
        while end - at >= 4:
            following = at + 4 + _LENGTH.unpack_from(data, at)[0]
            if following > end:
                break
            receive(_decode(view[at + 4 : following]))
            at = following
        self._rest = data[at:]


def take_part(seat: Seat) -> None:
    run(_take_part(seat))


async def _take_part(seat: Seat) -> None:
    loop, work = asyncio.get_running_loop(), seat.work
    member = Member(seat, _timed(seat) if work.timed else _ignore)
    server = await loop.create_server(lambda: _Link(member), "127.0.0.1", 0)
    ports = await seat.meet_soon(server.sockets[0].getsockname()[1])
    for other, port in enumerate(ports):
        if other != seat.me:
            connecting = loop.create_connection(lambda: _Link(member), "127.0.0.1", port)
            link, _ = await asyncio.wait_for(connecting, _CONNECT_S)
            member.links.append(link)
    await seat.meet_soon("connected")
    seat.begin()
    sent = await _flood(seat, member) if work.kind == "flood" else await _pace(seat, member)
    await seat.finish_soon(sent)


async def _flood(seat: Seat, member: Member) -> int:
    work, me, witness = seat.work, seat.me, seat.witness
    pool, sent = Pool(me, work.size), 0
    while not seat.over():
        if work.sends(me) and not member.paused and sent - witness.delivered_of(me) <= work.window:
            member.cast(Frame(me, sent + 1, pool.slice(sent + 1, work.batch)))
            sent += work.batch
        await asyncio.sleep(0)
    return sent


async def _pace(seat: Seat, member: Member) -> int:
    async def send(number: int, clock_ns: int) -> None:
        member.cast(Frame(seat.me, number, [payload(seat.me, number, seat.work.size, clock_ns)]))

    return await paced(seat, send)


def _ignore(sender: int, data: bytes) -> None:
    """The application."""


def _timed(seat: Seat) -> Callable[[int, bytes], None]:
    return lambda sender, data: seat.delayed(sender, stamp_of(data).sent_ns)
