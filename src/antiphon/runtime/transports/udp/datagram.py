"""What the bytes of a datagram mean.

Most datagrams are a wire and nothing else. One whose first byte is `MARK`, which no frame begins with, has a header:

| second byte | kind      | then                                              | says                                             |
|-------------|-----------|---------------------------------------------------|--------------------------------------------------|
| 0x10        | Whole     | wire                                              | a wire that is empty or itself begins with MARK  |
| 0x11        | Part      | index u16, count u16, audience u32, wire u32, body | part `index` of `count` of a wire                |
| 0x12        | Addressed | audience u32, wire                                | a multicast for an audience, not for everybody   |
| 0x13        | RollCall  | audience u32, (ipv4 u32, port u16) …              | whoever is listed belongs to my audience, and answers |
| 0x14        | Present   | audience u32                                      | I am of that audience and hear your multicasts   |

The high half of the second byte is the version. Audience 0 is nobody in particular: the one that a unicast went to, or everybody.

`read` returns one of the kinds or raises `BadFrame` with the name of the counter, whatever the bytes. Cost: none for a bare wire, which
is the datagram itself; one copy of the wire behind a header (4 µs for 60 kB).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from antiphon.errors import BadFrame

MARK = 0xC1
DATAGRAM_LIMIT = 65_507
"""The most that UDP over IPv4 carries."""
DATAGRAM_MINIMUM = 548
"""What every link takes."""
PARTS_LIMIT = 4_096
EVERYBODY = 0

_VERSION = 0x10
_WHOLE, _PART, _ADDRESSED, _ROLL_CALL, _PRESENT = range(_VERSION, _VERSION + 5)
_WHOLE_HEADER = bytes((MARK, _WHOLE))
_PART_HEADER = struct.Struct("!BBHHII")
_AUDIENCE_HEADER = struct.Struct("!BBI")
_ENDPOINT_BYTES = 6
PART_OVERHEAD = _PART_HEADER.size

Endpoint: TypeAlias = bytes
"""An IPv4 address and a port, as six bytes."""


class Whole(Struct, frozen=True, gc=False):
    wire: bytes


class Part(Struct, frozen=True, gc=False):
    index: int
    count: int
    audience: int
    wire_id: int
    body: bytes


class Addressed(Struct, frozen=True, gc=False):
    audience: int
    wire: bytes


class RollCall(Struct, frozen=True, gc=False):
    audience: int
    endpoints: tuple[Endpoint, ...]


class Present(Struct, frozen=True, gc=False):
    audience: int


Datagram: TypeAlias = Whole | Part | Addressed | RollCall | Present


def write(wire: bytes, limit: int, audience: int, wire_id: int) -> Sequence[bytes]:
    """The datagrams of at most `limit` bytes that carry a wire; `wire_id` tells its parts from those of the sender's other wires."""
    size = len(wire)
    if audience == EVERYBODY:
        if size <= limit and size and wire[0] != MARK:
            return (wire,)
        if size + len(_WHOLE_HEADER) <= limit:
            return (_WHOLE_HEADER + wire,)
    elif size + _AUDIENCE_HEADER.size <= limit:
        return (_AUDIENCE_HEADER.pack(MARK, _ADDRESSED, audience) + wire,)
    room = limit - PART_OVERHEAD
    count = -(-size // room)
    header = _PART_HEADER.pack
    return [header(MARK, _PART, index, count, audience, wire_id) + wire[index * room : (index + 1) * room] for index in range(count)]


def roll_calls(audience: int, endpoints: Sequence[Endpoint], limit: int) -> list[bytes]:
    """The datagrams that call everybody of an audience; each may stand alone."""
    header = _AUDIENCE_HEADER.pack(MARK, _ROLL_CALL, audience)
    room = (limit - len(header)) // _ENDPOINT_BYTES
    return [header + b"".join(endpoints[at : at + room]) for at in range(0, len(endpoints), room)]


def present(audience: int) -> bytes:
    return _AUDIENCE_HEADER.pack(MARK, _PRESENT, audience)


def read(datagram: bytes) -> Datagram:
    """What a datagram that is empty or begins with `MARK` says."""
    if len(datagram) < len(_WHOLE_HEADER):  # also the empty one
        raise BadFrame("datagram_truncated")
    kind = datagram[1]
    if kind == _WHOLE:
        return Whole(datagram[2:])
    if kind == _PART:
        if len(datagram) <= PART_OVERHEAD:
            raise BadFrame("datagram_truncated")
        _, _, index, count, audience, wire_id = _PART_HEADER.unpack_from(datagram)
        if not index < count <= PARTS_LIMIT or count == 1:
            raise BadFrame("datagram_malformed")
        return Part(index, count, audience, wire_id, datagram[PART_OVERHEAD:])
    if kind not in (_ADDRESSED, _ROLL_CALL, _PRESENT):
        raise BadFrame("datagram_unknown_kind" if kind & 0xF0 == _VERSION else "datagram_unknown_version")
    if len(datagram) < _AUDIENCE_HEADER.size:
        raise BadFrame("datagram_truncated")
    audience = _AUDIENCE_HEADER.unpack_from(datagram)[2]
    rest = datagram[_AUDIENCE_HEADER.size :]
    if audience == EVERYBODY:
        raise BadFrame("datagram_malformed")
    if kind == _ADDRESSED:
        return Addressed(audience, rest)
    if kind == _PRESENT:
        return Present(audience)
    if len(rest) % _ENDPOINT_BYTES:
        raise BadFrame("datagram_malformed")
    return RollCall(audience, tuple(rest[at : at + _ENDPOINT_BYTES] for at in range(0, len(rest), _ENDPOINT_BYTES)))
