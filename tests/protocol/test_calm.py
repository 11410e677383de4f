"""Messages after which a turn need not end: nodes that skip its end, as real ones do, send and tell what those do that never skip it."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from antiphon.errors import WouldBlock
from antiphon.model.events import Event, Writable
from antiphon.model.frames import Batch
from antiphon.model.ids import Address, GroupId, MemberId
from antiphon.model.options import GroupOptions, Settings
from antiphon.protocol.node import NodeCore
from antiphon.protocol.ordering.unordered import Unordered
from antiphon.protocol.registry import ORDERS
from antiphon.protocol.stage import Context

NAMES = tuple(map(Address, ("ana", "bob", "cleo")))
PATIENT = Settings(digest_s=0.4)
"""Patient as nodes are over TCP, and faster than those in which nobody speaks."""
GROUP_S, TALK_S, END_S = 0.5, 4.0, 10.0
"""When others join, when all begin to talk, and when the test ends."""


class Net:
    """Three nodes in a group on a network with `loss`; `short`: the end of a turn is skipped where it may be."""

    def __init__(self, options: GroupOptions, seed: int, *, loss: float, short: bool) -> None:
        self.short, self.loss, self.now = short, loss, 0.0
        self.chance = random.Random(f"net {seed}")
        self.cores = {name: NodeCore(name, name, rng=random.Random(f"{seed} {name}"), settings=PATIENT) for name in NAMES}
        self.told: dict[Address, list[tuple[GroupId | None, Event]]] = {name: [] for name in NAMES}
        self.sent: list[tuple[float, Address, bytes]] = []
        self.skipped = self.settled = self.accepted = self.due = 0
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self.group = self.cores[NAMES[0]].create(0.0, "trip", options)
        for name in NAMES:
            self.cores[name].start(0.0)
            self.end_turn(name)
        for name in NAMES[1:]:
            self.at(GROUP_S, lambda name=name: self.join(name))  # type: ignore[misc]
        for number in range(120):
            self.at(TALK_S + 0.037 * number, lambda number=number: self.talk(number))  # type: ignore[misc]
        while self._agenda and self._agenda[0][0] < END_S:
            self.now, _, action = heapq.heappop(self._agenda)
            action()

    def at(self, when: float, action: Callable[[], None]) -> None:
        self.due += 1
        heapq.heappush(self._agenda, (when, self.due, action))

    def join(self, name: Address) -> None:
        self.cores[name].join(self.now, self.group, contacts=NAMES[:1])
        self.end_turn(name)

    def talk(self, number: int) -> None:
        """One of them says something: mostly to all, now and then to one."""
        name = NAMES[number % 5 % 3]
        core, ends = self.cores[name], True
        with suppress(WouldBlock):
            for part in range(1 + number % 3):
                at_once = part == 0 and number % 2 == 0
                core.submit(self.now, self.group, b"message %d, %d" % (number, part), at_once=at_once)
                self.accepted += 1
                ends = True
                if at_once:
                    self.carry(name, core.hurried())
                    if self.short and core.settled():
                        self.settled += 1
                        self.told[name] += core.told()
                        ends = False
            if number % 7 == 0:
                everyone = core.memberships[self.group].port.address_by_member.items()
                core.submit_to(self.now, self.group, next(member for member, at in everyone if at != name), b"between us %d" % number)
                ends = True
        if ends:
            self.end_turn(name)

    def arrive(self, source: Address, name: Address, wire: bytes) -> None:
        core = self.cores[name]
        if not self.short:
            for member in core.memberships.values():
                core._touch(member)  # a turn that has begun is ended
        if core.receive(self.now, source, wire):
            self.skipped += 1
            self.told[name] += core.told()
        else:
            self.end_turn(name)

    def tick(self, name: Address) -> None:
        deadline = self.cores[name].deadline
        if deadline is not None and deadline <= self.now:
            self.cores[name].tick(self.now)
            self.end_turn(name)

    def end_turn(self, name: Address) -> None:
        core = self.cores[name]
        effects = core.drain(self.now)
        self.told[name] += effects.events
        self.carry(name, effects.sends)
        if core.deadline is not None:
            self.at(max(core.deadline, self.now), lambda: self.tick(name))

    def carry(self, name: Address, sends: list[tuple[tuple[Address, ...] | None, bytes, GroupId | None]]) -> None:
        for to, wire, _ in sends:
            self.sent.append((self.now, name, wire))
            for other in NAMES if to is None else to:
                if other != name and self.chance.random() >= self.loss:
                    self.at(
                        self.now + self.chance.uniform(0.001, 0.02),
                        lambda other=other, wire=wire: self.arrive(name, other, wire),  # type: ignore[misc]
                    )


class Alarming(Unordered):
    """Delivers at once, and once more says something a moment later."""

    def accept(self, batch: Batch, low: int, high: int) -> None:
        super().accept(batch, low, high)
        self.context.call_in(0.005, lambda: self.deliver(Writable()))


class Concluding(Unordered):
    """Delivers at once, and says something at the end of the turn."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._news = False

    def accept(self, batch: Batch, low: int, high: int) -> None:
        super().accept(batch, low, high)
        self._news = True

    def flush(self) -> None:
        if self._news:
            self._news = False
            self.deliver(Writable())


@pytest.mark.parametrize("loss", [0.0, 0.1])
@pytest.mark.parametrize("order", ["unordered", "fifo", "causal", "total", "semantic", "alarming", "concluding"])
@pytest.mark.parametrize("window", [16, 8_192])
def test_what_is_skipped_changes_nothing(order: str, loss: float, window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member would be told something in another order, or would forget to acknowledge what it has, only because little was going on."""
    monkeypatch.setitem(ORDERS, "alarming", Alarming)
    monkeypatch.setitem(ORDERS, "concluding", Concluding)
    for seed in range(3):
        options = GroupOptions(order=order, window=window)
        always, short = (Net(options, seed, loss=loss, short=skips) for skips in (False, True))
        assert short.told == always.told
        assert short.sent == always.sent
        deliveries = [event for _, event in short.told[NAMES[1]] if type(event) is tuple]
        assert sum(high - low + 1 for _, low, high in deliveries) == short.accepted > 100
        # In total order a place is still to come, and a sequencer has to give one.
        assert (short.skipped > 50) is (order not in ("total", "alarming", "concluding"))
        # Who waits for an earlier alarm need not be told of a later one.
        assert (short.settled > 10) is (order not in ("total", "concluding")) or order == "alarming"


@pytest.mark.parametrize(
    ("options", "skips"),
    [(GroupOptions(delivery="safe"), False), (GroupOptions(multicast="flood"), True), (GroupOptions(multicast="tree"), True)],
    ids=["safe", "flood", "tree"],
)
def test_who_owes_others_something_ends_its_turns(options: GroupOptions, skips: bool) -> None:
    """Acknowledgements of safe delivery, and frames that a member sends on, would lie in its outbox until something else happened."""
    always, short = (Net(options, 1, loss=0.0, short=short) for short in (False, True))
    assert (short.told, short.sent) == (always.told, always.sent)
    assert (bool(short.skipped), bool(short.settled)) == (skips, skips)


def test_a_turn_that_has_begun_is_ended() -> None:
    """What was accepted from the application before would wait for something else to happen, or be told after what came later."""
    net = Net(GroupOptions(order="fifo"), 1, loss=0.0, short=True)
    ana, bob = net.cores[NAMES[0]], net.cores[NAMES[1]]
    ana.submit(net.now, net.group, b"one")
    (_, first, _), *_ = ana.drain(net.now).sends
    ana.submit(net.now, net.group, b"two")
    (_, second, _), *_ = ana.drain(net.now).sends
    bob.submit(net.now, net.group, b"mine", at_once=True)
    bob.receive(net.now, NAMES[0], first)
    assert not bob.receive(net.now, NAMES[0], second), "its own message has not been told yet"
    effects = bob.drain(net.now)
    assert [event[0].payloads for _, event in effects.events if type(event) is tuple] == [(b"mine",), (b"one",), (b"two",)]
    assert len(effects.sends) >= 1, "and leaves with the end of the turn"


def test_what_was_told_before_in_the_turn_stays_before() -> None:
    """A member would read a message of a view before it is told what came before that message."""
    net = Net(GroupOptions(order="fifo"), 1, loss=0.0, short=True)
    ana, bob = net.cores[NAMES[0]], net.cores[NAMES[1]]
    for word in (b"one", b"two"):
        ana.submit(net.now, net.group, word)
        (_, wire, _), *_ = ana.drain(net.now).sends
        bob.drain(net.now)
        membership = bob.memberships[net.group]
        if word == b"two":
            bob._touch(membership)
            membership.port.tell(Writable())
        bob.receive(net.now, NAMES[0], wire)
    kinds = [b"".join(event[0].payloads) if type(event) is tuple else event for _, event in bob.drain(net.now).events]
    assert kinds == [Writable(), b"two"]


def test_what_an_outsider_said_through_two_members_is_told_once() -> None:
    """An outsider's member dies, it sends its message through another one, and everybody reads it twice."""
    net = Net(GroupOptions(order="fifo", open=True), 1, loss=0.0, short=True)
    bob, outsider = net.cores[NAMES[1]], MemberId("out#1")
    told: list[tuple[GroupId | None, Event]] = []
    for name in (NAMES[0], NAMES[2]):
        member = net.cores[name]
        for guest in (None, (outsider, 1)):
            member.memberships[net.group].submit(net.now, b"hello", guest=guest)
            member._touch(member.memberships[net.group])
            (_, wire, _), *_ = member.drain(net.now).sends
            told += bob.told() if bob.receive(net.now, name, wire) else bob.drain(net.now).events
    said = [seqno in (batch.guests or {}) for _, (batch, low, high) in told for seqno in range(low, high + 1)]  # type: ignore[misc]
    assert said == [False, True, False]


def test_who_has_more_to_do_than_to_tell_its_own_message_ends_the_turn() -> None:
    """What was accepted, or came, before the message in the same turn would never leave, or never be told."""
    net = Net(GroupOptions(order="fifo"), 1, loss=0.0, short=True)
    ana, bob = net.cores[NAMES[0]], net.cores[NAMES[1]]
    ana.submit(net.now, net.group, b"from ana")
    (_, wire, _), *_ = ana.drain(net.now).sends
    bob.submit(net.now, net.group, b"first", at_once=True)
    bob.drain(net.now)
    assert not bob.settled(), "that turn has ended"
    bob.submit(net.now, net.group, b"second")
    bob.submit(net.now, net.group, b"third", at_once=True)
    assert not bob.settled()
    bob.receive(net.now, NAMES[0], wire)
    told = [event[0].payloads for _, event in bob.drain(net.now).events if type(event) is tuple]
    assert told == [(b"second", b"third"), (b"from ana",)]
    with suppress(WouldBlock):
        bob.submit(net.now, net.group, b"fourth", at_once=True)
    assert bob.settled()
    assert not bob.settled(), "once"
    assert [event[0].payloads for _, event in bob.told()] == [(b"fourth",)]
    assert bob.drain(net.now).events == []
