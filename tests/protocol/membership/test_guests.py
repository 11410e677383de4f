"""Open groups: outsiders hand their messages to members, who send them to the group. The test is the group and the network."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import InvalidOption, JoinFailed, NoQuorum, TooLarge, WouldBlock
from antiphon.model import codec
from antiphon.model.control import Guest, Taken
from antiphon.model.events import Event, GuestRefused, Writable
from antiphon.model.ids import Address, GroupId, MemberId
from antiphon.model.options import GroupOptions, Settings
from antiphon.protocol.membership.guests import OUTSIDER_LIMIT, RANGES_LIMIT, Guests
from antiphon.protocol.membership.port import Port
from antiphon.protocol.outsider import GIVE_UP_S, Outsider
from antiphon.protocol.timers import Timers

GROUP = GroupId("g#0")
VIC = MemberId("vic#9")
ANA, BOB, OUTSIDE = Address("ana:1"), Address("bob:1"), Address("vic:1")


class Member:
    """A member: what it submits goes to the group, as long as it has `credit` and takes payloads up to `limit` bytes."""

    def __init__(self, address: Address, open: bool = True) -> None:
        self.port = Port(MemberId(address), GROUP, GroupOptions(open=open), Settings(), random.Random(address), 0.0)
        self.credit, self.limit = 1 << 30, 1 << 20
        self.cast: list[tuple[int, bytes]] = []
        self.guests = Guests(self.port, self._submit)

    def _submit(self, payload: bytes, guest: tuple[MemberId, int]) -> None:
        if len(payload) > self.limit:
            raise TooLarge(len(payload), self.limit)
        if not self.credit:
            raise WouldBlock("no credit")
        self.credit -= 1
        self.cast.append((guest[1], payload))

    def answer(self, frame: Guest) -> Taken:
        self.guests.receive_guest(frame, OUTSIDE)
        [(to, wire)] = self.port.sends
        self.port.sends.clear()
        assert to == (OUTSIDE,)
        taken = codec.decode(wire)
        assert isinstance(taken, Taken)
        return taken


class Place:
    """An outsider and two members; `deaf` members neither hear nor answer, those in `mute` hear and are not heard."""

    def __init__(self, settings: Settings | None = None, **member: bool) -> None:
        self.now = 0.0
        self.members = {address: Member(address, **member) for address in (ANA, BOB)}
        self.deaf: set[Address] = set()
        self.mute: set[Address] = set()
        self.events: list[Event] = []
        self.sends: list[tuple[Address, bytes]] = []
        self.timers = Timers()
        self.settings = settings or Settings()
        self.outsider = Outsider(
            VIC,
            GROUP,
            [ANA, BOB],
            rng=random.Random("1/place"),
            settings=self.settings,
            now=0.0,
            send=lambda to, frame: self.sends.append((to[0], codec.encode(frame))),
            tell=self.events.append,
            timers=self.timers,
        )
        self.contacts: list[Address] = []

    def submit(self, *payloads: bytes) -> list[int]:
        return [self.outsider.submit(self.now, payload) for payload in payloads]

    def run(self, seconds: float = 10.0) -> None:
        end = self.now + seconds
        self.outsider.end_turn(self.now)
        while True:
            while self.sends:
                address, wire = self.sends.pop(0)
                assert len(wire) <= self.settings.frame_bytes
                self.contacts.append(address)
                if address not in self.deaf:
                    frame = codec.decode(wire)
                    assert isinstance(frame, Guest)
                    taken = self.members[address].answer(frame)
                    if address not in self.mute:
                        self.outsider.receive_taken(self.now, taken, address)
            if self.timers.deadline is None or self.timers.deadline > end:
                break
            self.now = self.timers.deadline
            self.timers.run(self.now)
        self.now = end

    def deliver(self, *order: Address) -> list[bytes]:
        """What one member delivers when the members' messages come to it in this order."""
        guests = Guests(self.members[ANA].port, lambda payload, guest: None)
        cast = [message for address in order for message in self.members[address].cast]
        return [payload for number, payload in cast if guests.first_time(VIC, number)]


# -- from outside to inside --------------------------------------------------------------------------------------------------------


def test_messages_from_outside_reach_the_group_in_order_and_in_batches() -> None:
    """An outsider's messages would be lost or mixed up, or each would cost a frame and a round trip of its own."""
    place = Place()
    assert place.submit(*(b"%d" % number for number in range(100))) == list(range(1, 101))
    place.run()
    assert place.deliver(ANA, BOB) == [b"%d" % number for number in range(100)]
    assert place.outsider.waiting == 0
    assert len(place.contacts) == 1
    assert place.timers.deadline is None, "nothing is left to do"


def test_a_closed_group_says_so() -> None:
    """Strangers could speak in a group of members, or would wait for ever without a reason."""
    place = Place(open=False)
    place.submit(b"let me in")
    place.run()
    [refused] = place.events
    assert isinstance(refused, GuestRefused)
    assert (refused.group, refused.taken) == (GROUP, 0)
    assert "join it" in refused.why
    with pytest.raises(JoinFailed, match="join it"):
        place.submit(b"please")
    assert not place.members[ANA].cast
    assert not place.members[BOB].cast
    assert place.timers.deadline is None


def test_the_next_contact_is_tried_when_one_is_dead() -> None:
    """An outsider whose contact has crashed could not send any more, although the group lives."""
    place = Place()
    place.submit(b"one")
    place.run()
    first = place.contacts[0]
    other = BOB if first == ANA else ANA
    place.deaf = {first}
    place.submit(b"two", b"three")
    place.run()
    assert place.contacts[-1] == other
    assert place.deliver(first, other) == [b"one", b"two", b"three"]


def test_a_message_that_two_members_sent_is_delivered_once() -> None:
    """When a member is too slow to say that it took a message, everybody would get the message twice."""
    place = Place()
    first = ANA if place.outsider._contact == 0 else BOB
    other = BOB if first == ANA else ANA
    place.mute = {first}
    place.submit(b"one", b"two")
    place.run()
    assert place.members[first].cast == place.members[other].cast == [(1, b"one"), (2, b"two")]
    assert place.deliver(first, other) == place.deliver(other, first) == [b"one", b"two"]


def test_a_second_member_does_not_send_what_it_has_delivered() -> None:
    """Every change of contact would cost the group copies of what it has."""
    member = Member(BOB)
    for number in (1, 2):
        assert member.guests.first_time(VIC, number)
    assert member.answer(Guest(GROUP, VIC, 1, (b"one", b"two", b"three"))).number == 3
    assert member.cast == [(3, b"three")]


def test_a_member_that_comes_second_need_not_know_what_came_before() -> None:
    """A new contact would wait for messages that the dead one took with it."""
    member = Member(BOB)
    assert member.answer(Guest(GROUP, VIC, 41, (b"x", b"y"))).number == 42
    assert member.answer(Guest(GROUP, VIC, 30, (b"old",))).number == 42
    assert member.cast == [(41, b"x"), (42, b"y")]


def test_a_member_without_credit_takes_what_it_can_and_is_not_given_up() -> None:
    """An outsider would flood a group that is slow, or run from one busy member to the next."""
    place = Place(Settings(private_messages=4))
    for member in place.members.values():
        member.credit = 2
    place.submit(b"1", b"2", b"3", b"4")
    with pytest.raises(WouldBlock):
        place.submit(b"5")
    place.run(3 * GIVE_UP_S)
    assert place.outsider.taken == 2
    assert place.events == [Writable()]
    assert len(set(place.contacts)) == 1
    for member in place.members.values():
        member.credit = 100
    place.run()
    place.submit(b"5")
    place.run()
    assert place.deliver(ANA, BOB) == [b"1", b"2", b"3", b"4", b"5"]


def test_a_member_in_a_minority_takes_nothing() -> None:
    """A message would count as taken that the group has not accepted."""
    port = Port(MemberId("ana#1"), GROUP, GroupOptions(open=True), Settings(), random.Random("1"), 0.0)

    def submit(payload: bytes, guest: tuple[MemberId, int]) -> None:
        raise NoQuorum(1, 3)

    Guests(port, submit).receive_guest(Guest(GROUP, VIC, 1, (b"x",)), OUTSIDE)
    assert codec.decode(port.sends[0][1]) == Taken(GROUP, VIC, 0, "gone"), "another side may be at work"


def test_an_outsider_that_nobody_answers_gives_up() -> None:
    """A program would wait for ever for a group that is gone."""
    place = Place()
    place.deaf = {ANA, BOB}
    place.submit(b"x")
    place.run(2 * GIVE_UP_S)
    assert set(place.contacts) == {ANA, BOB}
    [refused] = place.events
    assert isinstance(refused, GuestRefused)
    assert "look for it again" in refused.why
    assert place.timers.deadline is None
    with pytest.raises(JoinFailed, match="no member of it is known"):
        Outsider(
            VIC,
            GROUP,
            [],
            rng=random.Random("1"),
            settings=Settings(),
            now=0.0,
            send=lambda to, frame: None,
            tell=place.events.append,
            timers=Timers(),
        )


def test_new_contacts_replace_those_that_are_gone() -> None:
    """A group whose members have all changed would be lost to its outsiders."""
    place = Place()
    cleo = Address("cleo:1")
    place.deaf = {ANA, BOB}
    place.members[cleo] = Member(cleo)
    place.submit(b"x")
    place.run(5)
    place.outsider.use(place.now, [])
    place.outsider.use(place.now, [cleo])
    place.run(10)
    assert place.members[cleo].cast == [(1, b"x")]


def test_a_contact_that_has_left_sends_the_outsider_on() -> None:
    """A node that is no member any more would take the messages and drop them."""
    place = Place()
    place.submit(b"x")
    place.outsider.end_turn(0.0)
    first = place.sends.pop()[0]
    place.outsider.receive_taken(0.0, Taken(GROUP, VIC, 0, "gone"), first)
    place.run()
    assert first not in place.contacts
    assert place.outsider.taken == 1


def test_what_does_not_fit_is_refused() -> None:
    """A message that no frame or no member can take would block all that follow it."""
    place = Place(Settings(frame_bytes=300))
    with pytest.raises(TooLarge):
        place.submit(bytes(300))
    with pytest.raises(InvalidOption):
        place.submit("text")  # type: ignore[arg-type]
    place.submit(*[bytes(100)] * 10)
    place.run()
    assert place.outsider.taken == 10
    for member in place.members.values():
        member.limit = 50
    place.submit(bytes(40), bytes(60), bytes(40))
    place.run()
    [refused] = place.events
    assert isinstance(refused, GuestRefused)
    assert refused.taken == 11
    assert "split it" in refused.why


# -- bounds and hostile frames -----------------------------------------------------------------------------------------------------


def test_what_members_remember_of_outsiders_is_bounded() -> None:
    """Whoever invents names or leaves holes in numbers could fill the memory of every member."""
    member = Member(ANA)
    for number in range(2 * OUTSIDER_LIMIT):
        member.answer(Guest(GROUP, MemberId(f"v{number}"), 1, (b"x",)))
        member.guests.first_time(MemberId(f"v{number}"), 1)
    assert len(member.guests._taken_by_outsider) == len(member.guests._delivered_by_outsider) == OUTSIDER_LIMIT
    for number in range(1, 4 * RANGES_LIMIT, 2):
        assert member.guests.first_time(VIC, number)
    assert len(member.guests._delivered_by_outsider[VIC]) == RANGES_LIMIT
    assert not member.guests.first_time(VIC, 1)


_number = st.one_of(st.integers(1, 4), st.just(1 << 62))


@given(
    st.lists(
        st.one_of(
            st.builds(
                Guest, st.just(GROUP), st.one_of(st.just(VIC), st.text(max_size=90)), _number, st.lists(st.binary(), min_size=1).map(tuple)
            ),
            st.builds(
                Taken,
                st.sampled_from([GROUP, GroupId("x#1")]),
                st.sampled_from([VIC, MemberId("y#1")]),
                st.one_of(st.just(0), _number),
                st.sampled_from(["", "gone", "what", "closed"]),
            ),
        ),
        max_size=10,
    )
)
def test_no_frame_raises(frames: list[Guest | Taken]) -> None:
    """Anybody on the network could stop a member, or an outsider."""
    place = Place()
    place.submit(b"1", b"2", b"3")
    for sent in frames:
        frame = codec.decode(codec.encode(sent))
        if isinstance(frame, Guest):
            place.members[ANA].guests.receive_guest(frame, Address("x:1"))
        elif isinstance(frame, Taken):
            place.outsider.receive_taken(place.now, frame, ANA)
            place.outsider.receive_taken(place.now, frame, Address("stranger:1"))
    place.members[ANA].port.sends.clear()
    place.run(3)
    assert place.outsider.waiting == 0
