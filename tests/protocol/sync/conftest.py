"""Several histories that synchronise over a network in memory, in virtual time, with loss and reordering from one seed."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from antiphon.model import codec
from antiphon.model.control import AskState, Epoch, Side, StatePiece, SyncAgain, SyncAnswer, SyncRequest, Wants
from antiphon.model.events import MissedMessages, StateArrived, StateWanted
from antiphon.model.frames import Batch
from antiphon.model.ids import Address, GroupId, MemberId
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import View
from antiphon.protocol.membership.port import Port
from antiphon.protocol.sync import history as history_module
from antiphon.protocol.sync.history import History
from antiphon.protocol.sync.snapshot import Snapshot
from antiphon.protocol.sync.sync import Sync

GROUP = GroupId("trip#1")


@pytest.fixture(autouse=True)
def _pack_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches here are small: the smallest are kept as their frames, where anything is."""
    monkeypatch.setattr(history_module, "_MANY", 0)



class Member:
    """One member: what it delivered (`delivered`, as `A1`), what it was told, and whether it is done. As in a group, nothing of a view is
    delivered while the member is catching up."""

    def __init__(self, bus: Bus, name: str, settings: Settings) -> None:
        self.bus, self.name, self.alive = bus, MemberId(name), True
        rng = random.Random(f"{bus.seed}/{name}")
        self.port = Port(self.name, GROUP, GroupOptions(order=bus.order), settings, rng, 0.0)
        # Every other one keeps batches as their frames, as nodes do with large ones: what they tell each other is the same.
        packs = ord(name[0]) % 2 == 1
        self.history = History(bus.order, settings, frame_of=codec.encode if packs else lambda batch: None)
        self.sync = Sync(self.port, self.history, on_done=self._done, on_recovered=self._recovered)
        self.snapshot = Snapshot(self.port, self.history, on_done=self._synchronise, busy=lambda: not self.done)
        self.state: bytes | None = None
        """What this member's application gives as its state (empty: what it delivered); None: nothing, ever."""
        self.delivered: list[str] = []
        self.recovered: list[str] = []
        self.done = 0
        self.held: list[Batch] = []
        self.view_id, self.sent, self.clock = 0, 0, 0.0
        self.wants = Wants()
        self.sides: tuple[Side, ...] = ()

    def _done(self) -> None:
        self.done += 1
        self.wants = Wants()
        for batch in self.held:
            self.deliver(batch)
        self.held.clear()

    def _recovered(self, batch: Batch, low: int, high: int) -> None:
        self.clock = max(self.clock, batch.sent_at)
        for seqno in range(low, high + 1):
            self.delivered.append(f"{batch.sender}{seqno}")
            self.recovered.append(f"{batch.sender}{seqno}")

    def deliver(self, batch: Batch) -> None:
        if not self.done:
            self.held.append(batch)
            return
        self.clock = max(self.clock, batch.sent_at)
        for first, last in self.history.covers(batch.sender, batch.first, batch.last):
            self.history.add(batch, first, last)
            self.delivered += [f"{batch.sender}{seqno}" for seqno in range(first, last + 1)]

    def _synchronise(self) -> None:
        assert self.port.view is not None
        self.sync.begin(self.port.view, self.sides, Wants() if self.wants.kind == "state" else self.wants)

    def install(self, view: View, sides: tuple[Side, ...]) -> None:
        self.sync.stop()
        self.snapshot.stop()
        self.held.clear()
        self.port.view, self.sides, self.view_id, self.done = view, sides, view.id, 0
        self.port.address_by_member = {member: Address(member) for member in view.members}
        self.history.close(view.id)
        self.history.begin(Epoch(view.id, len(view.members), tuple(sorted({side.view for side in sides if side.view}))))
        self.sync.on_view(view, sides)
        if self.wants.kind == "state":
            self.snapshot.begin(view, sides)
        else:
            self.sync.begin(view, sides, self.wants)

    def receive(self, wire: bytes) -> None:
        frame = codec.decode(wire)
        handler: dict[type, Callable[..., None]] = {
            SyncRequest: self.sync.receive_request,
            SyncAnswer: self.sync.receive_answer,
            SyncAgain: self.sync.receive_again,
            AskState: self.snapshot.receive_ask,
            StatePiece: self.snapshot.receive_piece,
        }
        handler[type(frame)](frame, frame.member)

    @property
    def gaps(self) -> list[MissedMessages]:
        return [event for event in self.port.events if isinstance(event, MissedMessages)]

    @property
    def states(self) -> list[bytes]:
        return [event.state for event in self.port.events if isinstance(event, StateArrived)]

    def ids(self) -> list[str]:
        """The canonical order as it is here."""
        return [f"{batch.sender}{seqno}" for batch, low, high in self.history.messages() for seqno in range(low, high + 1)]


class Bus:
    """The network and the clock. Every frame that is sent is counted by kind in `sent`; `log` keeps (sender, frame)."""

    def __init__(self, seed: int = 1, order: str = "fifo", loss: float = 0.0, delay: tuple[float, float] = (0.001, 0.003)) -> None:
        self.seed, self.order, self.loss, self.delay = seed, order, loss, delay
        self.now, self._set = 0.0, 0
        self.rng = random.Random(f"{seed}/bus")
        self.members: dict[str, Member] = {}
        self.sent: Counter[str] = Counter()
        self.log: list[tuple[str, codec.Frame]] = []
        self.largest = 0
        self._flying: list[tuple[float, int, str, bytes]] = []
        self._views = 0

    def add(self, *names: str, **settings: object) -> list[Member]:
        self.members |= {name: Member(self, name, Settings(**settings)) for name in names}  # type: ignore[arg-type]
        return [self.members[name] for name in names]

    def install(self, *names: str) -> View:
        """One view of these members, from whatever views they were in. Who is still catching up is a side of its own."""
        self._views += 1
        view = View(self._views, tuple(MemberId(name) for name in names))
        groups: dict[tuple[int, str], list[MemberId]] = {}
        for name in names:
            member = self.members[name]
            alone = name if member.view_id and not member.done else ""
            groups.setdefault((member.view_id, alone), []).append(member.name)
        sides = tuple(Side(view_id, tuple(members)) for (view_id, _), members in sorted(groups.items()))
        for name in names:
            self.members[name].port.now = self.now
            self.members[name].install(view, sides)
        return view

    def send(self, name: str, count: int = 1, to: Sequence[str] | None = None, payload: bytes = b"", at: float | None = None) -> Batch:
        """`count` messages in one batch, delivered at once at all of `to` (everyone of the sender's view)."""
        sender = self.members[name]
        assert sender.port.view is not None
        sender.clock = max(self.now, sender.clock + 1e-6) if at is None else at
        payloads = [payload or f"{name}{sender.sent + 1 + index}".encode() for index in range(count)]
        batch = Batch.compose(GROUP, sender.name, sender.view_id, sender.sent + 1, payloads, sent_at=sender.clock)
        sender.sent += count
        for receiver in sender.port.view.members if to is None else to:
            if self.members[receiver].view_id == sender.view_id:
                self.members[receiver].deliver(batch)
        return batch

    def run(self, seconds: float = 120.0) -> None:
        """Lets this much time pass."""
        end = self.now + seconds
        self._collect()
        while True:
            times = [member.port.timers.deadline for member in self.members.values() if member.alive]
            times = [time for time in times if time is not None] + [flight[0] for flight in self._flying[:1]]
            if not times or min(times) > end:
                break
            self.now = max(min(times), self.now)
            for member in self.members.values():
                if member.alive:
                    member.port.now = self.now
                    member.port.timers.run(self.now)
                    self._collect()
            while self._flying and self._flying[0][0] <= self.now:
                _, _, to, wire = heapq.heappop(self._flying)
                receiver = self.members[to]
                if receiver.alive:
                    receiver.port.now = self.now
                    receiver.receive(wire)
                    self._collect()
        self.now = end

    def until(self, *names: str, seconds: float = 120.0) -> None:
        """Until these are done."""
        end = self.now + seconds
        while self.now < end and not all(self.members[name].done for name in names):
            self.run(0.05)
        assert all(self.members[name].done for name in names), {name: self.members[name].sync.stats() for name in names}

    def provide(self) -> None:
        """Applications that have a state give it."""
        for member in self.members.values():
            for event in list(member.port.events):
                if isinstance(event, StateWanted):
                    member.port.events.remove(event)
                    if member.state is not None and member.alive:
                        member.snapshot.provide(event.snapshot, member.state or " ".join(member.delivered).encode())

    def _collect(self) -> None:
        for name, member in self.members.items():
            sends, member.port.sends = member.port.sends, []
            for addresses, wire in sends:
                kind = codec.kind_of(wire)
                self.sent[kind] += 1
                self.largest = max(self.largest, len(wire))
                self.log.append((name, codec.decode(wire)))
                for address in addresses:
                    if self.rng.random() >= self.loss:
                        self._set += 1
                        heapq.heappush(self._flying, (self.now + self.rng.uniform(*self.delay), self._set, address, wire))
        self.provide()


@pytest.fixture
def make_bus() -> type[Bus]:
    return Bus
