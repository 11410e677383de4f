"""lamport: one order of all messages, the same at every member, and nobody who decides it.

A user's own ordering, in one file outside the package. `docs/write-an-ordering.md` walks through it; run it to see it at work:

    python examples/lamport_order.py

Every batch carries a timestamp (Lamport, 1978) above everything its sender had received or sent. Messages are delivered by timestamp,
ties by the rank of the sender in the view, so all that is needed is to know when nothing lower can come any more: when
every member was heard from with a timestamp at least as high. Who has nothing to say acknowledges in a record: `[timestamp, number]`
means "after my message `number`, everything of mine is above `timestamp`".

Promises what `total` promises, and `heard_before` beside: a message comes after everything its sender had *received* before it sent
it, delivered or not. Keeps messages until every member was heard from, bounded through the window: own messages use up credit until
they are delivered, and a record numbers the messages it acknowledges, so that a member whose records do not arrive falls silent
instead of running ahead. Costs a round: data to all, then one small record from every member that has nothing to say itself; in a
group where all talk, no record at all. A member that has crashed stops everybody until a view without it is installed (`total`
stops only for its sequencer).
"""

from __future__ import annotations

import heapq
from collections import deque
from functools import partial

from antiphon.model.events import Delivery, Why
from antiphon.model.frames import Batch, Record, Stamp
from antiphon.model.ids import MemberId, MessageId, name_of
from antiphon.model.view import View
from antiphon.protocol.registry import ORDERS
from antiphon.protocol.stage import Context, Ordering
from antiphon.sim.log import Received, Sent
from antiphon.sim.oracles import ORACLES, PROMISES, Violation
from antiphon.sim.oracles.history import History

HIGHEST = 1 << 53
"""No honest timestamp comes near it: it is counted in batches and records."""


class Lamport(Ordering):
    makes_records = True
    promises = ("fifo", "causal", "total", "parent_before_child", "heard_before")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._next_by_sender: dict[MemberId, int] = {}
        """The next message of each sender to get in line: what lies beyond a gap is early."""
        self._sent = 0
        self._begin(context.view, context.cut)

    def _begin(self, view: View, starts: dict[MemberId, int]) -> None:
        kept, members = self._next_by_sender, view.members
        self._rank_by_member = {member: rank for rank, member in enumerate(members)}
        self._next_by_sender = {member: starts[member] + 1 if member in starts else kept.get(member, 1) for member in members}
        self._own_delivered = self._next_by_sender[self.context.me] - 1
        self._early_by_sender: dict[MemberId, dict[int, Delivery]] = {member: {} for member in members}
        self._line: list[tuple[int, int, int, Delivery]] = []
        """A heap of (timestamp, rank of the sender, number, what to deliver)."""
        self._heard_by_sender = dict.fromkeys(members, 0)
        """Nothing more can come from a sender at or below this timestamp."""
        self._acknowledged_by_sender: dict[MemberId, deque[tuple[int, int]]] = {member: deque() for member in members}
        """(number, timestamp) of acknowledgements that came before the messages they speak of."""
        self._clock = self._said = self._unsaid = self._held = 0
        """The timestamp reached, the one the others know of, and how many messages they wait to have acknowledged."""

    # -- what this member says -------------------------------------------------------------------------------------------------

    def stamp(self, first: int, last: int) -> Stamp:
        self._clock += 1
        self._said, self._unsaid, self._sent = self._clock, 0, last
        return [self._clock]

    def stamp_bytes(self) -> int:
        return 12

    def flush(self) -> None:
        # Once per turn, and not at all when an own batch has said as much. Where the records do not arrive, room runs out, and with
        # this member silent nobody's messages are delivered and all senders run out of credit: so nothing piles up there.
        if 0 < self._unsaid <= self.context.record_room():
            count, self._unsaid, self._said = self._unsaid, 0, self._clock
            self.context.record(count, [self._clock, self._sent])

    # -- what the others say ---------------------------------------------------------------------------------------------------

    def refuses(self, batch: Batch) -> str | None:
        return None if _is_timestamp(batch.stamp, 1) else "malformed_stamp"

    def accept(self, batch: Batch, low: int, high: int) -> None:
        sender = batch.sender
        timestamp, count = _timestamp(batch), high - low + 1
        if timestamp > self._said:
            self._unsaid += count
        # Also for what is early: a timestamp given from now on lies above everything that was received.
        self._clock = max(self._clock, timestamp)
        early = self._early_by_sender[sender]
        early[low] = (batch, low, high)
        self._held += count
        while (piece := early.pop(self._next_by_sender[sender], None)) is not None:
            self._line_up(sender, piece)
        self._advance()

    def accept_record(self, record: Record) -> None:
        body = record.body
        if type(body) is not list or not _is_timestamp(body, 2):
            self.context.drops["malformed_record"] += 1
            return
        timestamp, number = body
        self._clock = max(self._clock, timestamp)
        acknowledged = self._acknowledged_by_sender[record.sender]
        if acknowledged and acknowledged[-1][0] == number:
            acknowledged.pop()
        acknowledged.append((number, timestamp))
        self._hear(record.sender, 0)
        self._advance()

    def _line_up(self, sender: MemberId, piece: Delivery) -> None:
        batch, low, high = piece
        timestamp = _timestamp(batch)
        self._next_by_sender[sender] = high + 1
        if timestamp:
            heapq.heappush(self._line, (timestamp, self._rank_by_member[sender], low, piece))
        else:
            # A batch that carries nothing at all is not shown to `refuses`. It has no place in this order; everyone drops it alike.
            self.context.drops["missing_stamp"] += high - low + 1
            self._held -= high - low + 1
        # The rest of a batch that is here in part has the same timestamp.
        self._hear(sender, timestamp if high == batch.last else timestamp - 1)

    def _hear(self, sender: MemberId, timestamp: int) -> None:
        acknowledged, arrived = self._acknowledged_by_sender[sender], self._next_by_sender[sender] - 1
        # An acknowledgement counts when all it speaks of is in line: it may overtake the data, being in a stream of its own.
        while acknowledged and acknowledged[0][0] <= arrived:
            timestamp = max(timestamp, acknowledged.popleft()[1])
        self._heard_by_sender[sender] = max(timestamp, self._heard_by_sender[sender])

    def _advance(self) -> None:
        if self._line:
            heard = min(self._heard_by_sender.values())
            while self._line and self._line[0][0] <= heard:
                self._deliver_first()

    def _deliver_first(self) -> None:
        batch, low, high = piece = heapq.heappop(self._line)[3]
        self._held -= high - low + 1
        if batch.sender == self.context.me:
            self._own_delivered = high
        self.deliver(piece)

    # -- views and questions ---------------------------------------------------------------------------------------------------

    def own_delivered(self) -> int:
        return self._own_delivered

    def on_view(self, view: View, previous: View, starts: dict[MemberId, int]) -> None:
        """All survivors have the same messages in line, so all deliver them in the same order. What is early waits for a message
        that no survivor holds: all drop it alike."""
        while self._line:
            self._deliver_first()
        self.context.drops["lost_predecessor"] += self._held
        self._begin(view, starts)

    def why(self, message: MessageId) -> Why | None:
        sender, seqno = message
        for timestamp, _, _, (batch, low, high) in self._line:
            if batch.sender == sender and low <= seqno <= high:
                silent = [name_of(member) for member, heard in self._heard_by_sender.items() if heard < timestamp]
                waits_for = f"waits to hear from {', '.join(silent)}" if silent else "waits for its turn"
                return Why("held", f"has timestamp {timestamp} and {waits_for}")
        for _, low, high in self._early_by_sender.get(sender, {}).values():
            if low <= seqno <= high:
                missing = MessageId(sender, self._next_by_sender[sender])
                return Why("held", f"waits for {missing}, the next of its sender", (missing,))
        return None

    @property
    def held(self) -> int:
        return self._held

    def state(self) -> dict[str, object]:
        return {"held": self._held, "clock": self._clock, "heard_by_sender": dict(self._heard_by_sender)}


def _timestamp(batch: Batch) -> int:
    return batch.stamp[0] if type(batch.stamp) is list else 0


def _is_timestamp(body: Stamp, count: int) -> bool:
    """Whether a stamp or a record is a timestamp and `count` − 1 further numbers."""
    return type(body) is list and len(body) == count and 1 <= body[0] <= HIGHEST and min(body) >= 0


def heard_before(history: History, multicast: str, delivery: str) -> list[Violation]:
    """The oracle of the promise that is this order's own: what a member had received before it sent comes before what it sent,
    wherever both are delivered. Cost: O(messages × senders) per member."""
    latest_by_message: dict[MessageId, list[MessageId]] = {}
    for life in history.lives:
        latest: dict[MemberId, MessageId] = {}
        for event in life.log.events:
            if type(event) is Sent:
                latest_by_message[event.id] = list(latest.values())
            elif type(event) is Received:
                latest[event.id.sender] = max(event.id, latest.get(event.id.sender, event.id))
    found: list[Violation] = []
    for life in history.lives:
        for message, place in life.place.items():
            for earlier in latest_by_message[message]:
                if life.place.get(earlier, -1) > place:
                    why = f"delivered {message} before {earlier}, which its sender had received when it sent it"
                    found.append(Violation("heard_before", life.member, (earlier, message), why))
    return found


def register() -> None:
    """Makes `lamport` an order like the others: for groups, for the oracles, for the swarm."""
    ORDERS["lamport"] = Lamport
    PROMISES["lamport"] = PROMISES["fifo"] | {*Lamport.promises}
    ORACLES["heard_before"] = heard_before


def main() -> None:
    from antiphon.model.options import GroupOptions
    from antiphon.sim.network import NetworkModel, Uniform
    from antiphon.sim.swarm import Case, campaign
    from antiphon.sim.view_world import ViewWorld

    register()
    world = ViewWorld(7, ("ana", "ben", "eva"), GroupOptions(order="lamport"), network=NetworkModel(latency=Uniform(0.01, 0.1), loss=0.1))
    read_by_name: dict[str, list[bytes]] = {name: [] for name in world.names}
    for name in world.names:
        world.on_deliver(name, partial(_read, read_by_name[name]))
    for number in range(3):
        for name in world.names:
            world.send(name, f"{name}{number}".encode())
        world.run(0.05)
    world.settle(10.0)
    for name, read in read_by_name.items():
        print(f"{name} reads {b' '.join(read).decode()}")
    print(campaign(Case(seed=seed, order="lamport") for seed in range(50)))


def _read(book: list[bytes], message: MessageId, payload: bytes, reply_to: MessageId | None) -> None:
    book.append(payload)


if __name__ == "__main__":
    main()
