"""Zenoh: members in peer mode, each connected to each, publishing to one key and subscribed to it. Fifo order of each publisher.

A publisher waits when a peer takes no more (congestion control `BLOCK`) instead of dropping, which is its default. Zenoh batches by
itself. Samples come by callback, the fastest of its ways into Python.
"""

from __future__ import annotations

import json
import threading
import time
from typing import Any

from antiphon.bench.peers import packages
from antiphon.bench.peers.parcels import Parcels
from antiphon.bench.peers.server import free_port
from antiphon.bench.processes import BenchFailed
from antiphon.bench.seat import Seat
from antiphon.bench.work import payload, stamp_of

_KEY, _HELLO = "bench/work", "bench/hello"
_JOIN_S = 20.0
_HELLO_S = 0.05


def missing() -> str:
    return packages.missing(("zenoh", "eclipse-zenoh"))


def take_part(seat: Seat) -> None:
    zenoh = packages.load("zenoh")
    port = free_port()
    ports = seat.meet(port)
    session = zenoh.open(_config(zenoh, port, [other for other in ports if other != port]))
    parcels = Parcels(seat)
    held = [session.declare_subscriber(_KEY, lambda sample: parcels.deliver(sample.payload.to_bytes()))]
    _say_hello(seat, session, held)
    publisher = session.declare_publisher(_KEY, congestion_control=zenoh.CongestionControl.BLOCK)
    seat.meet("connected")
    seat.begin()
    work, sent, due = seat.work, 0, time.monotonic()
    senders = work.senders or work.members
    while not seat.over():
        wait_s = due - time.monotonic()
        if not work.sends(seat.me):
            time.sleep(0.1)
        elif wait_s > 0:
            time.sleep(wait_s)
        elif work.kind == "flood":
            publisher.put(parcels.compose(sent + 1))
            sent += parcels.step
        else:
            sent += 1
            due += senders / work.rate
            publisher.put(parcels.compose(sent, time.monotonic_ns()))
    seat.finish(sent)


def _config(zenoh: Any, port: int, others: list[int]) -> Any:
    config = zenoh.Config()
    values: dict[str, object] = {
        "mode": "peer",
        "listen/endpoints": [f"tcp/127.0.0.1:{port}"],
        "connect/endpoints": [f"tcp/127.0.0.1:{other}" for other in others],
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
    }
    for key, value in values.items():
        config.insert_json5(key, json.dumps(value))
    return config


def _say_hello(seat: Seat, session: Any, held: list[Any]) -> None:
    """Returns when everybody has been heard here: subscriptions travel in their own time."""
    heard: set[int] = set()
    all_heard = threading.Event()

    def hear(sample: Any) -> None:
        heard.add(stamp_of(sample.payload.to_bytes()).sender)
        if len(heard) == seat.work.members:
            all_heard.set()

    held.append(session.declare_subscriber(_HELLO, hear))
    seat.meet("listening")
    give_up_at = time.monotonic() + _JOIN_S
    while not all_heard.wait(_HELLO_S):
        session.put(_HELLO, payload(seat.me, 0, 16))
        if time.monotonic() > give_up_at:
            raise BenchFailed(f"zenoh: only {len(heard)} of {seat.work.members} members were heard within {_JOIN_S:.0f} s")
    # Those who have not heard this member yet still may: it goes on until they have.
    ready = threading.Thread(target=seat.meet, args=("heard all",))
    ready.start()
    while ready.is_alive():
        session.put(_HELLO, payload(seat.me, 0, 16))
        ready.join(_HELLO_S)
