"""Private messages and questions: a few members, a lossy network in virtual time, and group messages that the test delivers itself."""

from __future__ import annotations

import heapq
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import InvalidOption, NotAMember, TooLarge, WouldBlock
from antiphon.model import codec
from antiphon.model.control import Private as PrivateFrame
from antiphon.model.control import Received
from antiphon.model.events import Event, PrivateMessage, Undelivered, Writable
from antiphon.model.ids import Address, GroupId, MemberId
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import View
from antiphon.protocol.membership import private as private_module
from antiphon.protocol.membership.line import WINDOW
from antiphon.protocol.membership.port import Port
from antiphon.protocol.membership.private import QUESTION_LIMIT, Private

ANA, BOB, CLEO = (MemberId(name) for name in ("ana#1", "bob#2", "cleo#3"))
GROUP = GroupId("g#0")


class Member:
    def __init__(self, me: MemberId, view: View, settings: Settings, options: GroupOptions) -> None:
        self.port = Port(me, GROUP, options, settings, random.Random(me), 0.0)
        self.port.view = view
        self.port.address_by_member = {member: Address(member) for member in (ANA, BOB, CLEO)}
        self.sent = 0
        self.delivered: dict[MemberId, int] = {}
        self.synchronised = True
        self.private = Private(
            self.port,
            last_sent=lambda: self.sent,
            delivered_up_to=lambda member: self.delivered.get(member, 0),
            synchronised=lambda: self.synchronised,
        )


class World:
    """Three members of view 1. A frame takes 1 to 20 ms, may be lost or doubled; `cut` pairs do not hear each other."""

    def __init__(self, seed: int = 1, loss: float = 0.0, settings: Settings | None = None, **options: object) -> None:
        self.now, self.loss, self.rng = 0.0, loss, random.Random(f"{seed}/town")
        self.view = View(1, (ANA, BOB, CLEO))
        choice = GroupOptions(**options)  # type: ignore[arg-type]
        self.members = {member: Member(member, self.view, settings or Settings(), choice) for member in self.view.members}
        self.events: dict[MemberId, list[Event]] = {member: [] for member in self.members}
        self.carried: list[codec.Frame] = []
        self._under_way: list[tuple[float, int, MemberId, MemberId, bytes]] = []
        self._count = self.sent = 0

    def __getitem__(self, member: MemberId) -> Private:
        return self.members[member].private

    def end_turn(self, member: MemberId) -> None:
        port = self.members[member].port
        self[member].review()
        for addresses, wire in port.sends:
            assert len(wire) <= port.settings.frame_bytes
            for address in addresses:
                self.sent += 1
                for _ in range(1 + (self.rng.random() < self.loss / 2)):
                    self._count += 1
                    if self.rng.random() >= self.loss:
                        at = self.now + self.rng.uniform(0.001, 0.02)
                        heapq.heappush(self._under_way, (at, self._count, MemberId(address), member, wire))
        port.sends.clear()
        self.events[member] += port.events
        port.events.clear()

    def run(self, seconds: float = 10.0) -> None:
        end = self.now + seconds
        for member in self.members:
            self.end_turn(member)
        while True:
            due = [deadline for each in self.members.values() if (deadline := each.port.timers.deadline) is not None]
            due += [self._under_way[0][0]] if self._under_way else []
            if not due or min(due) > end:
                break
            self.now = max(self.now, min(due))
            for each in self.members.values():
                each.port.now = self.now
            while self._under_way and self._under_way[0][0] <= self.now:
                _, _, to, source, wire = heapq.heappop(self._under_way)
                frame = codec.decode(wire)
                self.carried.append(frame)
                if isinstance(frame, PrivateFrame):
                    self[to].receive_private(frame, source)
                elif isinstance(frame, Received):
                    self[to].receive_received(frame, source)
            for member, each in self.members.items():
                each.port.timers.run(self.now)
                self.end_turn(member)
        self.now = end

    def install(self, view: View, *members: MemberId, starts: dict[MemberId, int] | None = None) -> None:
        for member in members or view.members:
            self[member].on_view(view, starts or {each: self.members[each].sent for each in view.members})
            self.end_turn(member)

    def got(self, member: MemberId) -> list[bytes]:
        return [event.data for event in self.events[member] if isinstance(event, PrivateMessage)]

    def returned(self, member: MemberId) -> list[Undelivered]:
        return [event for event in self.events[member] if isinstance(event, Undelivered)]


# -- reliable, once, in order ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_everything_arrives_once_in_order_through_loss(seed: int) -> None:
    """A message to one member would be lost, doubled or overtaken on a bad network."""
    town = World(seed, loss=0.3)
    for number in range(150):
        town[ANA].submit(town.now, BOB, b"%d" % number)
        town[BOB].submit(town.now, ANA, b"-%d" % number)
        if number % 10 == 0:
            town.run(0.05)
    town.run(120)
    assert town.got(BOB) == [b"%d" % number for number in range(150)]
    assert town.got(ANA) == [b"-%d" % number for number in range(150)]
    assert town[ANA].under_way == 0
    assert town.members[ANA].port.timers.deadline is None, "nothing is left to do"
    assert not town[BOB]._line_by_peer[ANA].incoming._held, "copies of what was delivered are not kept"


@pytest.mark.parametrize("size", [0, 1, 199, 200, 201, 5_000, 100_000])
def test_a_message_may_be_larger_than_a_frame(size: int) -> None:
    """A message that does not fit into a datagram would be refused, or arrive in pieces."""
    town = World(loss=0.1, settings=Settings(frame_bytes=300, message_bytes=100_000))
    data = random.Random(str(size)).randbytes(size)
    town[ANA].submit(0.0, BOB, b"before")
    town[ANA].submit(0.0, BOB, data)
    town[ANA].submit(0.0, BOB, b"after")
    town.run(600)
    assert town.got(BOB) == [b"before", data, b"after"]


def test_a_dead_receiver_is_asked_ever_more_rarely() -> None:
    """A member that is silent for a minute would be flooded with what it cannot take."""
    town = World(loss=1.0)
    for _ in range(200):
        town[ANA].submit(0.0, BOB, b"x")
    town.run(0.0)
    assert town.sent == WINDOW
    town.run(60)
    assert town.sent <= WINDOW + 16 * 34


def test_what_is_under_way_is_bounded_and_room_is_told() -> None:
    """A receiver that takes nothing would fill its sender's memory, or a sender that waits would never hear that it may go on."""
    town = World(settings=Settings(private_messages=3))
    for _ in range(3):
        town[ANA].submit(0.0, BOB, b"x")
    with pytest.raises(WouldBlock):
        town[ANA].submit(0.0, BOB, b"x")
    town[ANA].submit(0.0, CLEO, b"others are not held up")
    with pytest.raises(WouldBlock):
        town[ANA].ask(0.0, b"to all or to none")
    town.run()
    assert town.events[ANA] == [Writable()]
    assert town.got(CLEO) == [b"others are not held up"]
    town[ANA].submit(town.now, BOB, b"x")

    town = World(settings=Settings(window_bytes=1_000))
    town[ANA].submit(0.0, BOB, bytes(5_000))
    with pytest.raises(WouldBlock):
        town[ANA].submit(0.0, CLEO, b"x")


def test_what_cannot_be_sent_is_refused_with_the_reason() -> None:
    """A program would learn of its mistake only by silence."""
    town = World(settings=Settings(message_bytes=10))
    with pytest.raises(NotAMember):
        town[ANA].submit(0.0, MemberId("dora#4"), b"")
    with pytest.raises(NotAMember):
        town[ANA].ask(0.0, b"", MemberId("dora#4"))
    with pytest.raises(TooLarge):
        town[ANA].submit(0.0, BOB, bytes(11))
    with pytest.raises(InvalidOption):
        town[ANA].submit(0.0, BOB, "text")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="itself"):
        town[ANA].submit(0.0, ANA, b"")


# -- and the group -----------------------------------------------------------------------------------------------------------------


def test_it_comes_after_the_group_messages_sent_before_it() -> None:
    """`I just told everyone` would reach a member before what everyone was told."""
    town = World()
    ana, bob = town.members[ANA], town.members[BOB]
    town[ANA].submit(0.0, BOB, b"zero")
    ana.sent = 5
    town[ANA].submit(0.0, BOB, b"five")
    ana.sent = 6
    town[ANA].submit(0.0, BOB, b"six")
    town.run()
    assert town.got(BOB) == [b"zero"]
    assert town[ANA].under_way == 2, "what waits is not acknowledged, so the sender's bound is the receiver's"
    bob.delivered[ANA] = 5
    town.run()
    assert town.got(BOB) == [b"zero", b"five"]
    bob.delivered[ANA] = 6
    town.run()
    assert town.got(BOB) == [b"zero", b"five", b"six"]
    assert town[ANA].under_way == 0


def test_a_view_ends_the_wait_for_what_lies_before_it() -> None:
    """A private message would wait for ever for group messages that its receiver need not deliver any more."""
    town = World()
    town.members[ANA].sent = 5
    town[ANA].submit(0.0, BOB, b"five")
    town.run()
    assert town.got(BOB) == []
    town.install(View(2, (ANA, BOB)))
    town.run()
    assert town.got(BOB) == [b"five"]


def test_while_a_member_synchronises_it_waits_for_what_is_recovered() -> None:
    """After a merge a private message would overtake the group messages of its sender's side that it was sent after."""
    town = World()
    bob = town.members[BOB]
    town.members[ANA].sent = 5
    town[ANA].submit(0.0, BOB, b"five")
    bob.synchronised = False
    town.install(View(3, (ANA, BOB, CLEO)))
    town.run()
    assert town.got(BOB) == []
    bob.synchronised = True
    town.run()
    assert town.got(BOB) == [b"five"]


def test_a_message_from_a_view_that_is_not_installed_yet_waits_for_it() -> None:
    """A member that is a moment late with a view would take a message before the group messages of that view."""
    town = World()
    view = View(2, (ANA, BOB, CLEO))
    town.install(view, ANA)
    town[ANA].submit(0.0, BOB, b"of the new view")
    town.run()
    assert town.got(BOB) == []
    town.install(view, BOB, CLEO)
    town.run()
    assert town.got(BOB) == [b"of the new view"]


def test_where_group_messages_may_be_lost_the_wait_has_an_end() -> None:
    """One lost group message would silence a pair of members until the next view."""
    town = World(order="unordered", multicast="besteffort")
    town.members[ANA].sent = 5
    for number in range(40):
        town.members[ANA].sent += 1
        town[ANA].submit(0.0, BOB, b"%d" % number)
    town.run(0.9)
    assert town.got(BOB) == []
    town.run(2)
    assert town.got(BOB) == [b"%d" % number for number in range(40)]


# -- views -------------------------------------------------------------------------------------------------------------------------


def test_numbers_go_on_across_views() -> None:
    """A message sent during a view change would be lost or come twice."""
    town = World(loss=0.3)
    for number in range(60):
        town[ANA].submit(town.now, BOB, b"%d" % number)
        if number % 10 == 9:
            town.install(View(2 + number, (ANA, BOB, CLEO)))
            town.run(0.02)
    town.run(60)
    assert town.got(BOB) == [b"%d" % number for number in range(60)]


def test_what_cannot_reach_a_member_that_is_gone_comes_back_in_order() -> None:
    """A sender would never learn that its messages did not arrive."""
    town = World()
    arrived = town[ANA].submit(0.0, BOB, b"arrived")
    town.run()
    town.loss = 1.0
    numbers = [town[ANA].submit(town.now, BOB, b"lost") for _ in range(3)]
    question = town[ANA].ask(town.now, b"?", BOB)
    town.run()
    town.install(View(2, (ANA, CLEO)))
    says = [Undelivered(BOB, number) for number in numbers]
    assert town.returned(ANA) == [*says, Undelivered(BOB, numbers[-1] + 1, "ask", question)]
    assert arrived < numbers[0]
    with pytest.raises(NotAMember):
        town[ANA].submit(town.now, BOB, b"x")
    town.run(60)
    assert town.members[ANA].port.timers.deadline is None


def test_a_member_that_comes_back_is_not_kept_waiting_for_what_was_given_up() -> None:
    """After a merge of two sides nothing private would get through any more, or an old message would come twice."""
    town = World()
    town[ANA].submit(0.0, BOB, b"one")
    town.run()
    late = next(frame for frame in town.carried if isinstance(frame, PrivateFrame))
    town.loss = 1.0
    town[ANA].submit(town.now, BOB, b"given up")
    town.run()
    # Ana's side went on without Bob, who only saw the merged view.
    town.install(View(2, (ANA, CLEO)))
    town.install(View(3, (ANA, BOB, CLEO)))
    town.loss = 0.0
    town[ANA].submit(town.now, BOB, b"two")
    town[BOB].submit(town.now, ANA, b"back")
    town.run()
    town[BOB].receive_private(late, ANA)
    town.run()
    assert town.got(BOB) == [b"one", b"two"]
    assert town.got(ANA) == [b"back"]
    assert len(town.returned(ANA)) == 1


def test_a_member_that_was_forgotten_and_comes_back_is_not_taken_for_an_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers would begin again at one, and the receiver would take new messages for copies of old ones."""
    monkeypatch.setattr(private_module, "AWAY_LIMIT", 0)
    town = World()
    town[ANA].submit(0.0, BOB, b"one")
    town.run()
    town.install(View(2, (ANA, CLEO)))
    town.install(View(3, (ANA, BOB, CLEO)))
    town[ANA].submit(town.now, BOB, b"two")
    town.run()
    assert town.got(BOB) == [b"one", b"two"]


def test_what_a_leaver_had_sent_is_delivered_before_it_is_forgotten() -> None:
    """The last words of a member that leaves in good order would be lost, although they had arrived."""
    town = World()
    town.members[ANA].sent = 5
    town[ANA].submit(0.0, BOB, b"last words")
    town.run()
    town.members[BOB].delivered[ANA] = 5
    town.install(View(2, (BOB, CLEO)))
    assert town.got(BOB) == [b"last words"]


def test_a_member_that_is_out_itself_gets_everything_back() -> None:
    """A program that leaves would not learn what it had sent in vain."""
    town = World(loss=1.0)
    town[ANA].submit(0.0, BOB, b"x")
    town[ANA].submit(0.0, CLEO, b"x")
    town[ANA].close()
    town.run()
    assert [event.to for event in town.returned(ANA)] == [BOB, CLEO]
    with pytest.raises(NotAMember):
        town[ANA].submit(town.now, BOB, b"x")


# -- questions ---------------------------------------------------------------------------------------------------------------------


def test_every_member_that_is_asked_replies_once() -> None:
    """A reply would be lost, counted twice, or taken for that to another question."""
    town = World(loss=0.2)
    question = town[ANA].ask(0.0, b"who?")
    town.run(30)
    for member in (BOB, CLEO):
        [asked] = [event for event in town.events[member] if isinstance(event, PrivateMessage)]
        assert (asked.sender, asked.data, asked.kind, asked.question) == (ANA, b"who?", "ask", question)
        for _ in range(2):
            town[member].reply(town.now, ANA, asked.question, member.encode())
    town[BOB].reply(town.now, ANA, question + 1, b"never asked")
    town.run(30)
    replies = [event for event in town.events[ANA] if isinstance(event, PrivateMessage)]
    assert sorted(replies, key=lambda event: event.sender) == [
        PrivateMessage(member, member.encode(), "reply", question) for member in (BOB, CLEO)
    ]
    assert town.members[ANA].port.drops["unasked_reply"] == 3


@pytest.mark.parametrize("acknowledged", [True, False])
def test_who_leaves_without_replying_is_named_once(acknowledged: bool) -> None:
    """Whoever gathers replies would wait for a member that is gone, or count it twice."""
    town = World(loss=0.0 if acknowledged else 1.0)
    question = town[ANA].ask(0.0, b"?")
    town.run(3)
    town.loss = 0.0
    town.run(0.0)
    town.install(View(2, (ANA, CLEO)))
    town.install(View(3, (ANA, CLEO)))
    assert town.returned(ANA) == [Undelivered(BOB, 1, "ask", question)]
    town.run(10)
    town[CLEO].reply(town.now, ANA, question, b"!")
    town.run(10)
    assert town.got(ANA) == [b"!"]
    assert len(town.returned(ANA)) == 1


def test_a_reply_says_that_the_question_arrived() -> None:
    """A question that was answered would come back as undelivered because one receipt was lost."""
    town = World()
    question = town[ANA].ask(0.0, b"?", BOB)
    town.end_turn(ANA)
    reply = PrivateFrame(GROUP, BOB, ANA, 1, 1, 0, b"!", "reply", question)
    town[ANA].receive_private(reply, BOB)
    town.end_turn(ANA)
    town.install(View(2, (ANA, CLEO)), ANA)
    assert town.got(ANA) == [b"!"]
    assert town.returned(ANA) == []


def test_open_questions_are_bounded_and_can_be_closed() -> None:
    """A program that gives up on replies would leak a little with every question."""
    town = World()
    questions = [town[ANA].ask(town.now, b"?", (BOB, CLEO)[number % 2]) for number in range(QUESTION_LIMIT)]
    town.run(60)
    with pytest.raises(WouldBlock):
        town[ANA].ask(town.now, b"?", BOB)
    town[ANA].close_question(questions[0])
    town.run()
    assert Writable() in town.events[ANA]
    town[ANA].ask(town.now, b"?", BOB)
    town[BOB].reply(town.now, ANA, questions[0], b"late")
    town.run()
    assert town.got(ANA) == []
    alone = World()
    alone.install(View(2, (ANA,)))
    assert alone[ANA].ask(0.0, b"?") == 1, "nobody is asked, and nobody replies"


# -- strangers ---------------------------------------------------------------------------------------------------------------------


def test_only_members_are_listened_to_and_only_for_themselves() -> None:
    """Anybody on the network could put words into a member's mouth."""
    town = World()
    dora = MemberId("dora#4")
    for frame, source in [
        (PrivateFrame(GROUP, dora, ANA, 1, 1, 0, b"x"), dora),
        (PrivateFrame(GROUP, BOB, ANA, 1, 1, 0, b"x"), CLEO),
        (PrivateFrame(GROUP, BOB, ANA, 1, 1, 0, b"x"), None),
        (PrivateFrame(GROUP, ANA, ANA, 1, 1, 0, b"x"), ANA),
    ]:
        town[ANA].receive_private(frame, source)
    town[ANA].submit(0.0, BOB, b"x")
    town[ANA].receive_received(Received(GROUP, BOB, ANA, 1), CLEO)
    town[ANA].receive_received(Received(GROUP, BOB, ANA, 2), BOB)
    town[ANA].receive_received(Received(GROUP, CLEO, ANA, 1), CLEO)
    assert town[ANA].under_way == 1
    town.end_turn(ANA)
    assert town.got(ANA) == []


@given(
    st.lists(
        st.one_of(
            st.builds(
                PrivateFrame,
                st.just(GROUP),
                st.just(BOB),
                st.sampled_from([ANA, CLEO]),
                st.integers(0, 3),
                st.one_of(st.integers(1, 5), st.just(1 << 62)),
                st.integers(0, 2),
                st.binary(max_size=2),
                st.sampled_from(["say", "ask", "reply"]),
                st.integers(0, 3),
                st.one_of(st.integers(1, 4), st.just(1 << 62)),
                st.booleans(),
            ),
            st.builds(Received, st.just(GROUP), st.just(BOB), st.just(ANA), st.one_of(st.integers(0, 5), st.just(1 << 62))),
            st.sampled_from(["turn", "ask", "view"]),
        ),
        max_size=20,
    )
)
def test_no_frame_of_a_member_raises(steps: list[object]) -> None:
    """One member that is broken, or evil, would stop the others."""
    town, view = World(), 1
    for step in steps:
        if step == "turn":
            town.end_turn(ANA)
        elif step == "ask":
            town[ANA].ask(0.0, b"?")
        elif step == "view":
            view += 1
            town.install(View(view, (ANA, BOB, CLEO) if view % 2 else (ANA, CLEO)), ANA)
        else:
            frame = codec.decode(codec.encode(step))  # type: ignore[arg-type]
            if isinstance(frame, PrivateFrame):
                town[ANA].receive_private(frame, BOB)
            elif isinstance(frame, Received):
                town[ANA].receive_received(frame, BOB)
    town.end_turn(ANA)
