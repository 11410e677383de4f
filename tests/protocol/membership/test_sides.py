"""Sides that a beacon tells of: who is asked, who is proposed to, and what an invented beacon can do."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from antiphon.model import codec
from antiphon.model import control as c
from antiphon.model.ids import Address, GroupId, MemberId
from antiphon.model.options import GroupOptions
from antiphon.model.view import MEMBER_LIMIT
from antiphon.protocol.membership.coordinator import Coordinator
from antiphon.protocol.node import NodeCore

ANA, EVE = Address("ana"), Address("eve")


def seat(name: str) -> c.Seat:
    return MemberId(f"{name}#1"), Address(name)


class Founder:
    """The only member of a group, which hears what a test tells it."""

    def __init__(self) -> None:
        self.core = NodeCore("ana", ANA, rng=random.Random(1))
        self.group: GroupId = self.core.create(0.0, "trip")
        self.now = 0.0
        self.sent: list[tuple[Address, bytes]] = []
        self.run(0.0)

    @property
    def coordinator(self) -> Coordinator:
        return self.core.memberships[self.group].coordinator

    @property
    def view(self) -> int:
        return self.core.memberships[self.group].agreement.view_id

    @property
    def drops(self) -> dict[str, int]:
        return dict(self.core.memberships[self.group].port.drops)

    def hear(self, frame: codec.Frame, source: Address = EVE) -> int:
        """Returns the size of the frame."""
        wire = codec.encode(frame)
        self.core.receive(self.now, source, wire)
        self._drain()
        return len(wire)

    def beacon(self, seats: Iterable[c.Seat], age: int = 1, sender: str = "") -> c.Beacon:
        seats = tuple(seats)
        return c.Beacon(self.group, MemberId(sender) or seats[0][0], self.view - age, seats, GroupOptions(), looking=False)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while (due := self.core.deadline) is not None and due <= end:
            self.now = max(self.now, due)
            self.core.tick(self.now)
            self._drain()
        self.now = end
        self._drain()

    def _drain(self) -> None:
        self.sent += [(to, wire) for where, wire, _ in self.core.drain(self.now).sends for to in where or ()]

    def pings(self) -> dict[MemberId, c.Ping]:
        """The last question to each."""
        return {frame.member: frame for _, wire in self.sent if isinstance(frame := codec.decode(wire), c.Ping)}

    def answer(self, *names: str, here: bool = True, number: int | None = None) -> None:
        for member, address in map(seat, names):
            ping = self.pings()[member]
            self.hear(c.Pong(ping.probe if number is None else number, self.group, member, here), address)

    def proposed_to(self) -> set[str]:
        return {to for to, wire in self.sent if codec.kind_of(wire) == "propose"}


def test_an_invented_side_is_asked_once_and_proposed_to_never() -> None:
    """One datagram would make a coordinator send gigabytes to whomever it names, and hold its group up meanwhile."""
    founder = Founder()
    size = founder.hear(founder.beacon(seat(f"nobody{number}") for number in range(MEMBER_LIMIT)))
    founder.run(5.0)
    assert founder.proposed_to() == set()
    assert not founder.core.memberships[founder.group].agreement.changing
    assert sum(len(wire) for _, wire in founder.sent) < 3 * size
    assert len(founder.coordinator.sides) == 0
    assert founder.drops == {"unanswered_side": 1}


def test_invented_sides_are_bounded_and_keep_no_true_one_out() -> None:
    """Strangers could fill the memory of a coordinator, or hide the other half of its group from it."""
    founder = Founder()
    for age in range(2, 32):
        founder.hear(founder.beacon((seat(f"nobody{age}-{number}") for number in range(MEMBER_LIMIT)), age))
        assert len(founder.coordinator.sides) <= MEMBER_LIMIT
    founder.hear(founder.beacon([seat("ben"), seat("cem")]))
    founder.answer("ben", "cem")
    founder.hear(founder.beacon((seat(f"nobody-{number}") for number in range(MEMBER_LIMIT)), 99))
    founder.run(0.5)
    assert founder.proposed_to() == {"ben", "cem"}
    assert founder.drops["too_many_sides"] == 1


def test_who_does_not_answer_is_left_out() -> None:
    """One dead member of a side would keep two sides apart, or hold up the living ones when they come together."""
    founder = Founder()
    founder.hear(founder.beacon([seat("ben"), seat("cem"), seat("dan")]))
    founder.answer("ben")
    founder.run(0.4)
    assert founder.proposed_to() == set()
    founder.answer("dan", here=False)
    asked = len(founder.sent)
    founder.run(0.3)
    assert {to for to, wire in founder.sent[asked:] if codec.kind_of(wire) == "ping"} == {"cem"}
    founder.run(1.0)
    assert founder.proposed_to() == {"ben"}


@pytest.mark.parametrize("answers", [["cem"], []])
def test_a_side_is_as_good_as_its_sender(answers: list[str]) -> None:
    """Whoever knows where true members are could have them proposed a view that their own coordinator knows nothing of."""
    founder = Founder()
    founder.hear(founder.beacon([seat("ben"), seat("cem")]))
    founder.answer(*answers)
    founder.run(5.0)
    founder.hear(founder.beacon([seat("ben"), seat("cem")]))
    founder.answer(*answers)
    founder.answer("ben", here=False)
    assert len(founder.coordinator.sides) == 0
    founder.run(5.0)
    assert founder.proposed_to() == set()


def test_an_answer_counts_with_the_number_of_the_question_from_where_it_was_asked() -> None:
    """Who can send under false addresses could answer for those it has invented."""
    founder = Founder()
    founder.hear(founder.beacon([seat("ben")]))
    founder.answer("ben", number=0)
    founder.hear(c.Pong(founder.pings()[seat("ben")[0]].probe, founder.group, seat("ben")[0], True), EVE)
    founder.run(0.5)
    assert founder.proposed_to() == set()
    founder.answer("ben")
    founder.run(0.5)
    assert founder.proposed_to() == {"ben"}


@pytest.mark.parametrize(
    ("seats", "sender"),
    [
        ([(MemberId("n" * 200), Address("ben"))], ""),
        ([(MemberId("ben#1"), Address("b" * 300))], ""),
        ([(MemberId("ben#1"), Address(""))], ""),
        ([(MemberId("ben#1"), ANA)], ""),
        ([seat("ben")], "eve#1"),
    ],
)
def test_what_cannot_be_a_side_is_counted(seats: list[c.Seat], sender: str) -> None:
    """Ids of a megabyte each would be kept, and sent to everybody in proposals."""
    founder = Founder()
    founder.hear(founder.beacon(seats, sender=sender))
    assert len(founder.coordinator.sides) == 0
    assert founder.drops == {"malformed": 1}
