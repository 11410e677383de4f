"""NATS JetStream: one stream on one server, in its memory, is the order that all share. Total order.

Every member publishes with acknowledgements (as many as 4,000 under way, the client's own bound) and reads through an ordered consumer.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from antiphon.bench.peers import packages
from antiphon.bench.peers.nats_core import SUBJECT, flood, missing, receiver
from antiphon.bench.peers.parcels import Parcels
from antiphon.bench.peers.server import program, serving
from antiphon.bench.seat import Seat, paced, run
from antiphon.bench.work import Work

__all__ = ["missing", "serve", "take_part"]

_CONNECT_S = 20
_STREAM = "bench"
_STREAM_BYTES = 1 << 30
"""What the stream keeps; older messages, which all have read long ago, are forgotten."""


def serve(work: Work) -> AbstractContextManager[Work]:
    command = [program("nats-server") or "nats-server", "-a", "127.0.0.1", "-js"]
    return serving(work, lambda port, folder: [*command, "-p", str(port), "-sd", folder])


def take_part(seat: Seat) -> None:
    run(_take_part(seat))


async def _take_part(seat: Seat) -> None:
    client = await packages.load("nats").connect(f"nats://{seat.work.address}", connect_timeout=_CONNECT_S, allow_reconnect=False)
    stream, parcels = client.jetstream(timeout=_CONNECT_S), Parcels(seat)
    if seat.me == 0:
        storage = packages.load("nats.js.api").StorageType.MEMORY
        await stream.add_stream(name=_STREAM, subjects=[SUBJECT], storage=storage, max_bytes=_STREAM_BYTES)
    await seat.meet_soon("made")
    await stream.subscribe(SUBJECT, cb=receiver(parcels), ordered_consumer=True)
    await client.flush(_CONNECT_S)
    await seat.meet_soon("subscribed")
    seat.begin()

    async def publish(number: int, clock_ns: int) -> None:
        await stream.publish_async(SUBJECT, parcels.compose(number, clock_ns))

    sent = await flood(seat, publish, parcels.step) if seat.work.kind == "flood" else await paced(seat, publish)
    await client.flush(_CONNECT_S)
    await seat.finish_soon(sent)
