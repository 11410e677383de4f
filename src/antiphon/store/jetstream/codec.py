"""What our messages look like: the header of a value, and the records about publishers, subscribers and the floor.

A value's header is `Antiphon: <number> <own number> <time> [<key> [<publisher>]]`, the first of all headers, so that it is found without
parsing the others: numbers in decimal, names as tokens; the publisher where the subject does not say it. `time` is a bound: the value's
time is this or the stamp of the server, whichever is later (see `publishing.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from antiphon.errors import BadStore
from antiphon.store.jetstream.puller import Delivery
from antiphon.store.jetstream.stream import Stored
from antiphon.store.jetstream.subjects import name_of, token
from antiphon.store.records import Moment, TopicOptions, Value

HEADER = "Antiphon"
_START = b"NATS/1.0\r\nAntiphon: "
_AT = len(_START)
VERSION = 1


class Holder(Struct, omit_defaults=True):
    """Who has the topic and how far it is, as of its place: the values of an ordinary topic that lie behind it are the holder's."""

    options: TopicOptions | None = None
    publisher: str = ""
    epoch: int = 0
    number: int = 0
    """The holder's own newest number, and the topic's number of the same value."""
    own: int = 0
    last: int = 0
    """The topic's newest number, and its time."""
    time: Moment = 0
    version: int = VERSION


class Pen(Struct, omit_defaults=True):
    """How far one publisher is: of a shared topic, or one that had the topic before."""

    epoch: int = 0
    """Of its grant in a shared topic; 0: none."""
    number: int = 0
    """Its own newest number, and the topic's number of the same value."""
    own: int = 0


class Floor(Struct, omit_defaults=True):
    floor: int = 0
    holes: tuple[tuple[int, int], ...] = ()
    """Ranges above the floor that have been removed one by one."""


class Seat(Struct, omit_defaults=True):
    """A subscriber, without what its subject says."""

    lease: Moment
    position: int
    marks: tuple[tuple[int, int], ...] = ()
    state: bytes = b""
    object: str = ""
    """Where the state is when it is too large for a message."""
    epoch: int = 1
    place: int = 0
    gone: bool = False


class Label(Struct, array_like=True):
    """What the header of a value says."""

    seq: int
    number: int
    time: Moment
    key: str = ""
    publisher: str = ""


def value_header(seq: int, number: int, time: Moment, key: str, publisher: str = "") -> str:
    if publisher:
        return f"{HEADER}: {seq} {number} {time} {token(key)} {token(publisher)}\r\n"
    return f"{HEADER}: {seq} {number} {time} {token(key)}\r\n" if key else f"{HEADER}: {seq} {number} {time}\r\n"


def label_of(headers: bytes) -> Label:
    seq, number, time, *names = _fields(headers)
    return Label(int(seq), int(number), int(time), *(name_of(name.decode("ascii")) for name in names))


def value_of(stored: Stored) -> Value:
    label = label_of(stored.headers)
    return Value(label.seq, max(label.time, stored.time), stored.data, label.key, stored.place)


def delivered_values(deliveries: Sequence[Delivery]) -> tuple[list[Value], int]:
    """Values as a consumer delivers them, and how many are behind the last. The busiest function here: 2 µs per value."""
    values, behind = [], b"0"
    for _, reply, data, headers in deliveries:
        seq, _, bound, *coded = _fields(headers)
        _, place, _, stamp, behind = reply.rsplit(b".", 4)
        values.append(Value(int(seq), max(int(bound), int(stamp)), data, name_of(coded[0].decode("ascii")) if coded else "", int(place)))
    return values, int(behind)


def _fields(headers: bytes) -> list[bytes]:
    if not headers.startswith(_START):
        raise BadStore("nats:", "there is a message among the values that Antiphon has not written")
    return headers[_AT : headers.index(b"\r\n", _AT)].split(b" ")


def encode(record: Struct) -> bytes:
    return msgspec.json.encode(record)


def encode_seat(seat: Seat) -> bytes:
    return msgspec.msgpack.encode(seat)


def seat_of(stored: Stored) -> Seat:
    return msgspec.msgpack.decode(stored.data, type=Seat)


def holder_of(stored: Stored | None) -> Holder:
    return holder_in(stored.data) if stored else Holder()


def holder_in(data: bytes) -> Holder:
    return msgspec.json.decode(data, type=Holder)


def pen_of(stored: Stored | None) -> Pen:
    return msgspec.json.decode(stored.data, type=Pen) if stored else Pen()


def floor_of(stored: Stored | None) -> Floor:
    return msgspec.json.decode(stored.data, type=Floor) if stored else Floor()
