"""Redis Streams: one stream on one server, kept in memory only, is the order that all share. Total order.

Members add their messages in pipelines of 16 and read with a blocking XREAD of many entries at a time, over two connections. A member
sends on only while fewer than `window` of its own messages have not come back to it.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from typing import Any

from antiphon.bench.peers import packages
from antiphon.bench.peers.parcels import Parcels
from antiphon.bench.peers.server import program, serving
from antiphon.bench.seat import Seat, paced, run
from antiphon.bench.work import Work

_STREAM, _FIELD = b"bench", b"m"
_CONNECT_S = 20
_KEPT = 262_144
"""Entries that the stream keeps, roughly: far more than all windows together."""
_PIPELINE = 16
_COUNT = 2_048
_BLOCK_MS = 100


def missing() -> str:
    wanted = packages.missing(("redis", "redis"))
    if program("redis-server") is None:
        return "install redis-server with the system's package manager" + (f", and {wanted}" if wanted else "")
    return wanted


def serve(work: Work) -> AbstractContextManager[Work]:
    command = [program("redis-server") or "redis-server", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    return serving(work, lambda port, folder: [*command, "--port", str(port), "--dir", folder])


def take_part(seat: Seat) -> None:
    run(_take_part(seat))


async def _take_part(seat: Seat) -> None:
    connect, parcels = packages.load("redis.asyncio").Redis.from_url, Parcels(seat)
    writer, reader = (connect(f"redis://{seat.work.address}", socket_connect_timeout=_CONNECT_S) for _ in range(2))
    await writer.ping()
    reading = asyncio.create_task(_read(reader, parcels))
    await seat.meet_soon("connected")
    seat.begin()

    async def add(number: int, clock_ns: int) -> None:
        await writer.xadd(_STREAM, {_FIELD: parcels.compose(number, clock_ns)}, maxlen=_KEPT, approximate=True)

    sent = await _flood(seat, writer, parcels) if seat.work.kind == "flood" else await paced(seat, add)
    await seat.finish_soon(sent)
    reading.cancel()


async def _read(reader: Any, parcels: Parcels) -> None:
    deliver, last = parcels.deliver, b"0"
    while True:
        answer = await reader.xread({_STREAM: last}, count=_COUNT, block=_BLOCK_MS)
        for _, entries in answer.items() if isinstance(answer, dict) else answer:
            # Clients that speak the newer protocol wrap the entries in a list of their own.
            for entry in entries[0] if entries and isinstance(entries[0], list) else entries:
                last = entry[0]
                deliver(entry[1][_FIELD])


async def _flood(seat: Seat, writer: Any, parcels: Parcels) -> int:
    work, me, witness, sent = seat.work, seat.me, seat.witness, 0
    while not seat.over():
        if not work.sends(me) or sent - witness.delivered_of(me) > work.window:
            await asyncio.sleep(0)
            continue
        pipeline = writer.pipeline(transaction=False)
        for _ in range(_PIPELINE):
            pipeline.xadd(_STREAM, {_FIELD: parcels.compose(sent + 1)}, maxlen=_KEPT, approximate=True)
            sent += parcels.step
        await pipeline.execute()
    return sent
