"""Wires of which some parts have come.

Promises: a wire comes out once, whole and unchanged, however its parts are ordered, repeated or mixed with others; or not at all, and
then it is counted. Anybody can send parts under any source address, so everything kept is bounded: per source, and for all sources
together. A source that has never completed a wire is a *stranger*; strangers share a small room of their own, in which the longest
silent one makes place for the next. So a flood of parts under invented addresses costs other strangers their parts, and a peer with
whom this node is talking nothing.

Keeps, per source, unfinished wires and the ids of the last finished ones (a part that comes twice must not open its wire again).
Cost: 1.0 µs per part, and the join.
"""

from __future__ import annotations

from collections import Counter, OrderedDict

from antiphon.model.ids import Address
from antiphon.runtime.transports.contract import WIRE_LIMIT
from antiphon.runtime.transports.udp.datagram import Part

PATIENCE_S = 2.0
"""How long a wire may take from its first part to its last; by then the protocol above has asked for it again."""
SOURCE_WIRES = 64
SOURCE_BYTES = 4 << 20
"""What one source may have unfinished; above it the oldest is given up."""
STRANGERS, STRANGERS_BYTES = 256, 4 << 20
PROVEN, PROVEN_BYTES = 1_024, 32 << 20
"""Sources, and unfinished bytes, of both kinds."""
_FINISHED = 32
_PART_COST, _WIRE_COST = 128, 512
"""What a part and a wire cost in memory beside their bytes: many tiny parts are no way around the bounds."""


class Reassembly:
    def __init__(self, drops: Counter[str]) -> None:
        self._drops = drops
        self._strangers = _Room(STRANGERS, STRANGERS_BYTES)
        self._proven = _Room(PROVEN, PROVEN_BYTES)

    def add(self, now: float, source: Address, part: Part) -> bytes | None:
        """Takes a part; returns its wire if it was the last one missing."""
        room = self._proven
        entry = room.sources.get(source)
        if entry is None:
            room = self._strangers
            entry = room.sources.get(source)
            if entry is None:
                entry = room.sources[source] = _Source()
        wire_id = part.wire_id
        wire = entry.wires.get(wire_id)
        if wire is None:
            if wire_id in entry.finished:
                self._drops["part_again"] += 1
                return None
            wire = entry.wires[wire_id] = _Wire(part.count, now)
            room.charge(entry, wire, _WIRE_COST)
        elif wire.count != part.count:
            self._drops["part_contradicts"] += 1
            return None
        elif part.index in wire.bodies:
            self._drops["part_again"] += 1
            return None
        wire.bodies[part.index] = part.body
        wire.size += len(part.body)
        room.charge(entry, wire, len(part.body) + _PART_COST)
        room.sources.move_to_end(source)
        if wire.size > WIRE_LIMIT:
            self._give_up(room, entry, wire_id, "wire_oversized")
        elif len(wire.bodies) == wire.count:
            room.finish(entry, wire_id)
            if room is self._strangers:
                room.move(source, self._proven)
                self._make_place(self._proven)
            bodies = wire.bodies
            return b"".join([bodies[index] for index in range(wire.count)])
        while len(entry.wires) > SOURCE_WIRES or entry.held > SOURCE_BYTES:
            self._give_up(room, entry, next(iter(entry.wires)), "reassembly_full")
        if room.is_full:
            self._make_place(room)
        return None

    def expire(self, now: float) -> None:
        """Gives up what has waited too long for its last part, and forgets strangers that have nothing left."""
        for room in (self._proven, self._strangers):
            for source, entry in list(room.sources.items()):
                while entry.wires:
                    wire_id, wire = next(iter(entry.wires.items()))
                    if now - wire.began < PATIENCE_S:
                        break
                    self._give_up(room, entry, wire_id, "wire_incomplete")
                if room is self._strangers and not entry.wires:
                    del room.sources[source]

    @property
    def held(self) -> int:
        """Bytes of unfinished wires, with what they cost beside."""
        return self._proven.held + self._strangers.held

    def stats(self) -> dict[str, object]:
        rooms = (self._proven, self._strangers)
        wires = sum(len(entry.wires) for room in rooms for entry in room.sources.values())
        return {"held_bytes": self.held, "wires": wires, "sources": len(self._proven.sources), "strangers": len(self._strangers.sources)}

    def _give_up(self, room: _Room, entry: _Source, wire_id: int, reason: str) -> None:
        room.finish(entry, wire_id)
        self._drops[reason] += 1

    def _make_place(self, room: _Room) -> None:
        while room.is_full and room.sources:
            _, entry = room.sources.popitem(last=False)  # the one that has been silent longest
            room.held -= entry.held
            if entry.wires:
                self._drops["reassembly_full"] += len(entry.wires)


class _Wire:
    __slots__ = ("began", "bodies", "cost", "count", "size")

    def __init__(self, count: int, began: float) -> None:
        self.count, self.began, self.size, self.cost = count, began, 0, 0
        self.bodies: dict[int, bytes] = {}


class _Source:
    __slots__ = ("finished", "held", "wires")

    def __init__(self) -> None:
        self.wires: dict[int, _Wire] = {}
        self.finished: dict[int, None] = {}
        self.held = 0


class _Room:
    """Sources that share one bound, the longest silent first."""

    __slots__ = ("held", "most_bytes", "most_sources", "sources")

    def __init__(self, most_sources: int, most_bytes: int) -> None:
        self.most_sources, self.most_bytes, self.held = most_sources, most_bytes, 0
        self.sources: OrderedDict[Address, _Source] = OrderedDict()

    @property
    def is_full(self) -> bool:
        return self.held > self.most_bytes or len(self.sources) > self.most_sources

    def charge(self, entry: _Source, wire: _Wire, cost: int) -> None:
        wire.cost += cost
        entry.held += cost
        self.held += cost

    def finish(self, entry: _Source, wire_id: int) -> None:
        wire = entry.wires.pop(wire_id)
        entry.held -= wire.cost
        self.held -= wire.cost
        entry.finished[wire_id] = None
        if len(entry.finished) > _FINISHED:
            del entry.finished[next(iter(entry.finished))]

    def move(self, source: Address, other: _Room) -> None:
        entry = other.sources[source] = self.sources.pop(source)
        self.held -= entry.held
        other.held += entry.held
