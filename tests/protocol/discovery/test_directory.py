"""The directory: nodes on a broadcast bus in virtual time. The test is the network."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import BadFrame, InvalidOption, WouldBlock
from antiphon.model import codec
from antiphon.model.control import Advertise, AskGroups, Ended, GroupInfo, Groups
from antiphon.model.events import Discovered, Event, NameServerAnswer, Vanished
from antiphon.model.ids import Address, GroupId, MemberId
from antiphon.model.options import GroupOptions, Settings
from antiphon.protocol.discovery.allowance import Allowance
from antiphon.protocol.discovery.directory import ADVERTISERS_LIMIT, QUESTIONS_PER_S, Directory
from antiphon.protocol.discovery.hints import ENDED_S, KNOWN_LIMIT
from antiphon.protocol.discovery.questions import QUESTION_LIMIT
from antiphon.protocol.timers import Timers


def info(name: str, view: int = 1, members: str = "a", left: str = "") -> GroupInfo:
    seats = tuple((MemberId(f"{member}#1"), Address(f"{member}:1")) for member in members.split())
    return GroupInfo(
        GroupId(f"{name}#0"), f"about {name}", GroupOptions(), view, seats, tuple(MemberId(f"{who}#1") for who in left.split())
    )


def names(infos: object) -> list[str]:
    return [each.id.removesuffix("#0") for each in infos]  # type: ignore[attr-defined]


class Bus:
    """Carries every frame, encoded, in `delay_s`; `away` nodes hear nothing and are not heard."""

    def __init__(self, seed: int = 1, delay_s: float = 0.0005, settings: Settings | None = None) -> None:
        self.now, self.delay_s, self.seed = 0.0, delay_s, seed
        self.settings = settings or Settings()
        self.nodes: dict[Address, Directory] = {}
        self.mine: dict[Address, list[GroupInfo]] = {}
        self.events: dict[Address, list[Event]] = {}
        self.timers: dict[Address, Timers] = {}
        self.away: set[Address] = set()
        self.lost: set[int] = set()
        """Which frames do not arrive, counted from 1."""
        self.sent: list[tuple[Address, codec.Frame]] = []
        self.to_all: list[codec.Frame] = []
        self.broadcasts = True
        """Whether what is sent to all reaches anybody."""
        self._under_way: list[tuple[float, int, Address, Address, bytes]] = []

    def add(self, name: str, *groups: GroupInfo, name_server: bool = True) -> Directory:
        address = Address(f"{name}:1")
        self.mine[address], self.events[address], self.timers[address] = list(groups), [], Timers()
        directory = self.nodes[address] = Directory(
            MemberId(f"{name}#1"),
            address,
            rng=random.Random(f"{self.seed}/{name}"),
            settings=self.settings,
            now=self.now,
            send=self._sender(address),
            tell=self.events[address].append,
            mine=lambda: self.mine[address],
            timers=self.timers[address],
            name_server=name_server,
        )
        return directory

    def _sender(self, source: Address) -> Callable[[tuple[Address, ...] | None, codec.Frame], None]:
        def send(to: tuple[Address, ...] | None, frame: codec.Frame) -> None:
            wire = codec.encode(frame)
            assert len(wire) <= self.settings.frame_bytes
            self.sent.append((source, frame))
            if to is None:
                self.to_all.append(frame)
            for address in to if to is not None else self.nodes if self.broadcasts else ():
                if address != source and address in self.nodes and not self.away & {source, address} and len(self.sent) not in self.lost:
                    heapq.heappush(self._under_way, (self.now + self.delay_s, len(self.sent), address, source, wire))

        return send

    def run(self, seconds: float = 1.0) -> None:
        end = self.now + seconds
        while True:
            due = [timers.deadline for timers in self.timers.values() if timers.deadline is not None]
            due += [self._under_way[0][0]] if self._under_way else []
            if not due or min(due) > end:
                break
            self.now = min(due)
            while self._under_way and self._under_way[0][0] <= self.now:
                _, _, address, source, wire = heapq.heappop(self._under_way)
                self.nodes[address].receive(self.now, source, codec.decode(wire))  # type: ignore[arg-type]
            for timers in self.timers.values():
                timers.run(self.now)
        self.now = end

    def told(self, name: str) -> list[str]:
        """The groups a node's application was told of since the last look."""
        events, self.events[Address(f"{name}:1")][:] = self.events[Address(f"{name}:1")][:], []
        return names(event.info for event in events if isinstance(event, Discovered))

    def answers(self) -> list[Groups]:
        """What was told to all."""
        return [frame for frame in self.to_all if isinstance(frame, Groups)]


# -- advertisements ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retry_s", [0.1, 0.25, 0.3, 0.7])
@pytest.mark.parametrize("now", [0.0, 1_000.1, 1_790_000_000.3])
def test_a_first_question_is_answered_whatever_the_clock_says(retry_s: float, now: float) -> None:
    """With most intervals and a clock that counts from 1970, the difference of two times is a little too small: nobody was answered."""
    allowance = Allowance(20, retry_s)
    assert all(allowance.spend(now, Address(f"x{number}:1")) for number in range(20))
    assert not allowance.spend(now, Address("x20:1"))


def test_the_illustration_of_the_join_and_leave_protocol() -> None:
    """A newcomer would miss groups that are there, or hear of groups that somebody turned down and nobody in reach is in."""
    bus = Bus()
    a = bus.add("a")
    a.advertise(bus.now)
    bus.run()
    bus.mine[a.address] = [info("G1", members="a")]
    a.announce(bus.now, GroupId("G1#0"))

    b = bus.add("b")
    b.advertise(bus.now)
    bus.run()
    assert bus.told("b") == ["G1"]
    assert not [frame for source, frame in bus.sent if source == b.address and isinstance(frame, Groups)]
    for node in (a, b):
        bus.mine[node.address] = [info("G1", view=2, members="a b")]

    c = bus.add("c")
    c.advertise(bus.now)
    bus.run()
    assert bus.told("c") == ["G1"]
    c.reject(bus.now, GroupId("G1#0"))
    bus.mine[c.address] = [info("G2", members="c")]
    c.announce(bus.now, GroupId("G2#0"))
    bus.run()
    assert bus.told("a") == bus.told("b") == ["G2"]

    bus.away = {a.address, b.address}
    d = bus.add("d")
    d.advertise(bus.now)
    bus.run()
    assert bus.told("d") == ["G2"]
    for node in (c, d):
        bus.mine[node.address] = [info("G2", view=2, members="c d")]

    bus.away = {b.address}
    a.advertise(bus.now)
    bus.run()
    assert bus.told("d") == ["G1"]
    assert names(a.known()) == ["G2"]
    assert a.find("G2")[0].members == info("G2", members="c d").members
    assert bus.told("c") == [], "it turned G1 down and has not advertised since"


@pytest.mark.parametrize("seed", range(5))
def test_a_hundred_members_give_about_one_answer(seed: int) -> None:
    """Every newcomer would set off a storm of a hundred equal answers."""
    bus = Bus(seed)
    everyone = " ".join(f"n{number}" for number in range(100))
    for name in everyone.split():
        bus.add(name, info("big", view=7, members=everyone))
    newcomer = bus.add("new")
    newcomer.advertise(bus.now)
    bus.run()
    assert bus.told("new") == ["big"]
    assert 1 <= len(bus.answers()) <= 4


def test_only_what_was_not_told_is_told() -> None:
    """A node in two groups would be silenced about the one that nobody else has told, or about a view that is newer than the one told."""
    bus = Bus()
    a = bus.add("a", info("same"), info("mine"), info("newer", view=3), info("older", view=3))
    a.receive(0.0, Address("x:1"), Advertise(MemberId("x#1")))
    told = (info("same"), info("newer", view=2), info("older", view=4))
    a.receive(0.0, Address("y:1"), Groups(MemberId("y#1"), told))
    bus.run()
    assert [names(frame.groups) for frame in bus.answers()] == [["mine", "newer"]]


def test_who_advertises_while_an_answer_is_pending_hears_it_all() -> None:
    """A node that came between another's advertisement and the answers would believe that there are no groups."""
    bus = Bus()
    a = bus.add("a", info("g"))
    a.receive(0.0, Address("x:1"), Advertise(MemberId("x#1")))
    a.receive(0.0, Address("y:1"), Groups(MemberId("y#1"), (info("g"),)))
    a.receive(0.0, Address("z:1"), Advertise(MemberId("z#1")))
    bus.run()
    assert len(bus.answers()) == 1


def test_who_advertises_is_answered_where_no_broadcast_reaches_it() -> None:
    """With seeds instead of multicast, a newcomer would be heard by the seed and never hear of any group."""
    bus = Bus()
    bus.broadcasts = False
    a, b = bus.add("a", info("g")), bus.add("b")
    a.receive(0.0, b.address, Advertise(b.node))
    bus.run()
    assert bus.told("b") == ["g"]
    a.advertise(bus.now)
    bus.run()
    assert len([frame for _, frame in bus.sent if isinstance(frame, Groups)]) == 3, "its answer to itself goes to all alone"


def test_a_flood_of_advertisements_is_answered_to_few_by_name() -> None:
    """One small frame with a false address each, and a node would send long lists to any number of machines that never asked."""
    bus = Bus()
    a = bus.add("a", info("g"))
    for number in range(1_000):
        a.receive(0.0, Address(f"x{number}:1"), Advertise(MemberId(f"x{number}#1")))
    told = list[tuple[Address, ...]]()
    a._send = lambda to, frame: told.append(to or ())
    bus.run()
    assert sorted(map(len, told)) == [0, ADVERTISERS_LIMIT]


def test_a_rejected_group_is_news_again_after_the_own_advertisement() -> None:
    """A user would be asked again and again about a group they turned down, or could never change their mind."""
    bus = Bus()
    bus.add("a", info("g"))
    b = bus.add("b")
    b.advertise(bus.now)
    bus.run()
    assert bus.told("b") == ["g"]
    b.reject(bus.now, GroupId("g#0"))
    c = bus.add("c")
    c.advertise(bus.now)
    bus.run()
    assert bus.told("b") == []
    assert b.known() == ()
    b.advertise(bus.now)
    bus.run()
    assert bus.told("b") == ["g"]


def test_a_group_is_told_once_and_an_own_group_never() -> None:
    """An application would be offered groups that it knows, or is in."""
    bus = Bus()
    bus.add("a", info("g"), info("ours", members="a b"))
    b = bus.add("b", info("ours", members="a b"))
    for _ in range(3):
        b.advertise(bus.now)
        bus.run()
    assert bus.told("b") == ["g"]
    with pytest.raises(InvalidOption, match="leave it"):
        b.reject(bus.now, GroupId("ours#0"))
    bus.mine[b.address] = []
    b.advertise(bus.now)
    bus.run()
    assert bus.told("b") == [], "it has left a group, which is not one it never heard of"
    assert names(b.known()) == ["g", "ours"]


# -- hints -------------------------------------------------------------------------------------------------------------------------


def test_who_left_has_left_and_the_newer_view_counts() -> None:
    """Somebody who wants to join would be sent to members that are gone."""
    bus = Bus()
    node = bus.add("n")

    def hear(*hint: GroupInfo, source: str = "x") -> list[str]:
        node.receive(bus.now, Address(f"{source}:1"), Groups(MemberId(f"{source}#1"), hint))
        return [member.removesuffix("#1") for member, _ in node.find("g")[0].members]

    assert hear(info("g", 2, "a b c")) == ["a", "b", "c"]
    assert hear(info("g", 1, "a b c", left="b")) == ["a", "c"]
    assert hear(info("g", 2, "a b d")) == ["a", "c", "d"]
    assert hear(info("g", 3, "d b")) == ["d"]
    assert hear(info("g", 1, "a c"), source="c") == ["d", "c"], "an older view, but its teller lives"
    assert hear(info("g", 3, "d", left="c d")) == ["d", "c"], "a hint that leaves nobody says nothing"
    assert hear(info("g", 9, "")) == ["d", "c"]


def test_the_end_of_a_group_is_told_and_lasts() -> None:
    """A group that is gone would come back from the memory of others, again and again."""
    bus = Bus()
    a, b = bus.add("a", info("g", view=5)), bus.add("b")
    b.advertise(bus.now)
    bus.run()
    bus.mine[a.address] = []
    a.end(bus.now, GroupId("g#0"), 5)
    bus.run()
    assert bus.events[b.address] == [Discovered(info("g", view=5)), Vanished(GroupId("g#0"), info("g", view=5))]
    assert b.find("g") == []
    stale = Groups(MemberId("x#1"), (info("g", view=5),))
    b.receive(bus.now, Address("x:1"), stale)
    assert b.find("g") == []
    b.receive(bus.now, Address("x:1"), Groups(MemberId("x#1"), (info("g", view=6),)))
    assert names(b.find("g")) == ["g"], "another side of a partition goes on"


def test_a_member_that_lives_is_believed_when_old_frames_cannot_be_under_way() -> None:
    """The side of a partition that has the smaller view id, or a group that is founded anew, would stay hidden for ever."""
    bus = Bus()
    node = bus.add("n")
    node.receive(0.0, Address("a:1"), Ended(GroupId("g#0"), 5))
    hearsay = Groups(MemberId("x#1"), (info("g", view=3),), node.ask(0.0, Address("x:1")))
    node.receive(1.5, Address("x:1"), hearsay)
    assert node.known() == ()
    own_word = Groups(MemberId("x#1"), (info("g", view=3),))
    node.receive(ENDED_S - 1, Address("x:1"), own_word)
    assert node.known() == ()
    node.receive(ENDED_S, Address("x:1"), own_word)
    assert names(node.known()) == ["g"]


def test_an_own_group_does_not_end_by_hearsay() -> None:
    """One forged or overtaken frame would make a group forget itself."""
    bus = Bus()
    a = bus.add("a", info("g"))
    a.receive(0.0, Address("x:1"), Ended(GroupId("g#0"), 99))
    assert bus.events[a.address] == []
    assert a.drops["ended_but_alive"] == 1
    assert names(a.find("g")) == ["g"]


def test_what_is_known_is_bounded_and_the_longest_silent_goes_first() -> None:
    """Whoever invents groups could fill a node's memory, or push out a group that is heard of all the time."""
    bus = Bus()
    node = bus.add("n")
    for number in range(2 * KNOWN_LIMIT):
        node.receive(0.0, Address("x:1"), Groups(MemberId("x#1"), (info("real"), info(f"g{number:05}"))))
        node.receive(0.0, Address("x:1"), Ended(GroupId(f"e{number}#0"), 1))
    known = names(node.known())
    assert len(known) == KNOWN_LIMIT
    assert "real" in known
    assert "g00000" not in known
    for number in range(200):
        everyone = " ".join(f"m{number}x{member}" for member in range(1_000))
        node.receive(0.0, Address("x:1"), Groups(MemberId("x#1"), (info(f"h{number}", members=everyone),)))
    assert sum(len(each.members) for each in node.known()) <= 65_536


# -- name servers ------------------------------------------------------------------------------------------------------------------


def test_a_name_server_tells_its_own_groups_and_those_it_has_heard_of() -> None:
    """Where there is no broadcast, nobody could find a group."""
    bus = Bus()
    server = bus.add("s", info("own"))
    server.receive(0.0, Address("x:1"), Groups(MemberId("x#1"), (info("heard"), info("unwanted"))))
    server.reject(0.0, GroupId("unwanted#0"))
    n = bus.add("n")
    question = n.ask(0.0, server.address)
    bus.run()
    [first, second, answer] = bus.events[n.address]
    assert isinstance(first, Discovered)
    assert isinstance(second, Discovered)
    assert isinstance(answer, NameServerAnswer)
    assert (answer.question, names(answer.groups), answer.refused, answer.reason) == (question, ["heard", "own"], False, "")


def test_a_name_server_tells_what_is_so_now() -> None:
    """What it told first it would tell for ever, and nobody could find a group that was founded since."""
    bus = Bus()
    server, n = bus.add("s", info("own")), bus.add("n")
    changes: list[Callable[[], None]] = [
        lambda: None,
        lambda: server.receive(bus.now, Address("x:1"), Groups(MemberId("x#1"), (info("heard"),))),
        lambda: bus.mine[server.address].append(info("founded")),
        lambda: server.receive(bus.now, Address("x:1"), Ended(GroupId("heard#0"), 1)),
    ]
    told = []
    for change in changes:
        change()
        n.ask(bus.now, server.address)
        bus.run()
        [*_, answer] = bus.events[n.address]
        assert isinstance(answer, NameServerAnswer)
        told.append(names(answer.groups))
    assert told == [["own"], ["heard", "own"], ["founded", "heard", "own"], ["founded", "own"]]


def test_a_name_server_answers_so_many_questions_and_no_more() -> None:
    """A few small questions with a false address would make a node send hundreds of megabytes to somebody who never asked."""
    bus = Bus()
    server = bus.add("s", info("own"))

    def ask(now: float, asker: str) -> int:
        before = len(bus.sent)
        server.receive(now, Address(asker), AskGroups(MemberId("x#1"), 1))
        return len(bus.sent) - before

    retry_s = bus.settings.retry_s
    assert [ask(now, "x:1") for now in (0.0, 0.0, retry_s / 4, retry_s, retry_s)] == [1, 0, 0, 1, 0]
    assert sum(ask(retry_s, f"y{number}:1") for number in range(1_000)) == QUESTIONS_PER_S - 2
    assert server.drops["too_many_questions"] == 3 + 1_000 - (QUESTIONS_PER_S - 2)
    assert sum(ask(1.0, f"z{number}:1") for number in range(1_000)) == QUESTIONS_PER_S


def test_a_node_can_refuse_to_be_a_name_server() -> None:
    """Its owner could not keep to themselves which groups they are in, or the asker would wait in vain."""
    bus = Bus()
    server = bus.add("s", info("own"), name_server=False)
    n = bus.add("n")
    question = n.ask(0.0, server.address)
    bus.run(10)
    assert bus.events[n.address] == [NameServerAnswer(question, (), refused=True)]


def test_a_question_that_nobody_answers_ends() -> None:
    """A program that asks a dead address would hang."""
    bus = Bus()
    n = bus.add("n")
    question = n.ask(0.0, Address("nobody:1"))
    bus.run(10)
    [answer] = bus.events[n.address]
    assert isinstance(answer, NameServerAnswer)
    assert (answer.question, answer.groups, answer.refused) == (question, (), False)
    assert "ask again" in answer.reason
    assert 3 <= len([frame for _, frame in bus.sent if isinstance(frame, AskGroups)]) <= 8
    assert bus.timers[n.address].deadline is None


def test_an_answer_may_take_many_frames_and_lose_some() -> None:
    """A list that does not fit into a datagram would never arrive, or arrive cut off without a word."""
    bus = Bus(settings=Settings(frame_bytes=600))
    everyone = " ".join(f"member-{number}" for number in range(60))
    gone = " ".join(f"gone-{number}" for number in range(60))
    server = bus.add("s", *(info(f"g{number}", members="a b c") for number in range(20)), info("big", members=everyone, left=gone))
    n = bus.add("n")
    question = n.ask(0.0, server.address)
    bus.lost = {5, 9}
    bus.run(10)
    answers = [event for event in bus.events[n.address] if isinstance(event, NameServerAnswer)]
    assert [answer.question for answer in answers] == [question]
    assert len(answers[0].groups) == 21
    [big] = n.find("big")
    assert sorted(big.members) == sorted(info("big", members=everyone).members)
    assert sorted(big.left) == sorted(info("big", left=gone).left)
    assert len([frame for _, frame in bus.sent if isinstance(frame, AskGroups)]) == 2
    assert answers[0].reason == ""


def test_nobody_answers_what_was_not_asked() -> None:
    """A stranger could put groups into a node's directory by answering questions it never asked."""
    bus = Bus()
    n = bus.add("n")
    n.receive(0.0, Address("x:1"), Groups(MemberId("x#1"), (info("g"),), question=1))
    assert n.known() == ()
    assert n.drops["unasked_groups"] == 1


def test_open_questions_are_bounded() -> None:
    """A loop that asks without waiting would grow without end."""
    n = Bus().add("n")
    for _ in range(QUESTION_LIMIT):
        n.ask(0.0, Address("nobody:1"))
    with pytest.raises(WouldBlock):
        n.ask(0.0, Address("nobody:1"))


# -- hostile frames ----------------------------------------------------------------------------------------------------------------

_text = st.text(max_size=90)
_number = st.one_of(st.integers(0, 3), st.just(1 << 62))
_seats = st.lists(st.tuples(_text, _text), max_size=3).map(tuple)
_info = st.builds(
    GroupInfo, st.one_of(st.just("g#0"), _text), _text, st.just(GroupOptions()), _number, _seats, st.lists(_text, max_size=3).map(tuple)
)
_frame = st.one_of(
    st.builds(Advertise, _text),
    st.builds(Groups, _text, st.lists(_info, max_size=3).map(tuple), _number, st.booleans(), _number, st.integers(1, 3)),
    st.builds(AskGroups, _text, st.integers(1, 1 << 62)),
    st.builds(Ended, st.one_of(st.just("g#0"), _text), _number),
)


@given(st.lists(st.one_of(_frame, st.just("ask"), st.just("run")), max_size=12))
def test_no_frame_raises(steps: list[object]) -> None:
    """One malformed frame from anybody on the network would stop a node."""
    bus = Bus()
    node = bus.add("n", info("g", members="n"))
    for step in steps:
        if step == "ask":
            node.ask(bus.now, Address("x:1"))
        elif step == "run":
            bus.run(0.2)
        else:
            node.receive(bus.now, Address("x:1"), codec.decode(codec.encode(step)))  # type: ignore[arg-type]
    bus.run(5)
    assert "g" in names(node.find("g"))


def test_a_group_with_impossible_options_is_no_frame() -> None:
    """Options that a group cannot have would be raised into the loop of everybody who hears of it."""
    wire = codec.encode(Groups(MemberId("x#1"), (info("g"),)))
    hostile = wire.replace(b"\xa6window\xcd\x20\x00", b"\xa6window\x00")
    assert hostile != wire
    with pytest.raises(BadFrame):
        codec.decode(hostile)
