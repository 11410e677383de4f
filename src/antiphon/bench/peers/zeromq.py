"""pyzmq: a mesh of publishers and subscribers, one socket of each kind per member, over TCP or (`zeromq-ipc`) its own way between processes
of one machine. Fifo order.

A publisher that has a full queue for some subscriber refuses (XPUB_NODROP) instead of dropping, which is its default; the member then
reads first. Own messages are delivered locally. Receivers of a paced run block in `recv`, which is the fastest way to read.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from antiphon.bench.peers import packages
from antiphon.bench.peers.parcels import Parcels
from antiphon.bench.seat import Seat
from antiphon.bench.systems import ZEROMQ_IPC

_JOIN_MS = 20_000
_READS = 256
"""Messages read at most before the next send is tried."""
_WAIT_MS = 20


def missing() -> str:
    return packages.missing(("zmq", "pyzmq"))


def take_part(seat: Seat) -> None:
    zmq, parcels = packages.load("zmq"), Parcels(seat)
    context = zmq.Context()
    publisher, subscriber = context.socket(zmq.XPUB), context.socket(zmq.SUB)
    publisher.setsockopt(zmq.XPUB_NODROP, 1)
    publisher.setsockopt(zmq.XPUB_VERBOSE, 1)  # tells every subscription, also when there is one like it
    if seat.work.system == ZEROMQ_IPC:
        publisher.bind(f"ipc://@antiphon-bench-{os.getpid()}")
    else:
        publisher.bind("tcp://127.0.0.1:*")
    for other, address in enumerate(seat.meet(publisher.getsockopt_string(zmq.LAST_ENDPOINT))):
        if other != seat.me:
            subscriber.connect(address)
    subscriber.setsockopt(zmq.SUBSCRIBE, b"")
    publisher.setsockopt(zmq.RCVTIMEO, _JOIN_MS)
    for _ in range(seat.work.members - 1):
        publisher.recv()
    seat.meet("subscribed")
    seat.begin()
    sent = (_flood if seat.work.kind == "flood" else _pace)(seat, zmq, publisher, subscriber, parcels)
    ending = threading.Thread(target=seat.finish, args=(sent,))
    ending.start()
    while ending.is_alive():
        if subscriber.poll(_WAIT_MS):
            _read(zmq, subscriber, parcels)


def _flood(seat: Seat, zmq: Any, publisher: Any, subscriber: Any, parcels: Parcels) -> int:
    sent, waiting = 0, parcels.compose(1)
    while not seat.over():
        refused = False
        try:
            publisher.send(waiting, zmq.NOBLOCK)
        except zmq.Again:
            refused = True
        else:
            parcels.deliver(waiting)
            sent += parcels.step
            waiting = parcels.compose(sent + 1)
        if not _read(zmq, subscriber, parcels) and refused:
            subscriber.poll(1)
    return sent


def _pace(seat: Seat, zmq: Any, publisher: Any, subscriber: Any, parcels: Parcels) -> int:
    work, sent, due = seat.work, 0, time.monotonic()
    subscriber.setsockopt(zmq.RCVTIMEO, _WAIT_MS)
    senders = work.senders or work.members
    while not seat.over():
        if not work.sends(seat.me):
            try:
                parcels.deliver(subscriber.recv())
            except zmq.Again:
                continue
        elif (wait_s := due - time.monotonic()) > 0:
            time.sleep(wait_s)
        else:
            sent += 1
            due += senders / work.rate
            data = parcels.compose(sent, time.monotonic_ns())
            publisher.send(data)
            parcels.deliver(data)
    return sent


def _read(zmq: Any, subscriber: Any, parcels: Parcels) -> int:
    """Delivers what is there; returns how much that was."""
    for count in range(_READS):
        try:
            data = subscriber.recv(zmq.NOBLOCK)
        except zmq.Again:
            return count
        parcels.deliver(data)
    return _READS
