"""The faults of nodes that have a part of a run of their own: each is generated in every variant, and its judge sees what is broken."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from antiphon.errors import UnknownParent
from antiphon.model import codec
from antiphon.model.frames import Batch, Nack
from antiphon.model.ids import Address, GroupId, MemberId, MessageId, name_of
from antiphon.model.options import GroupOptions
from antiphon.model.view import View
from antiphon.protocol.discovery.directory import Directory
from antiphon.protocol.membership.membership import Membership
from antiphon.protocol.membership.slowness import Slowness
from antiphon.protocol.multicast.repair import Repair
from antiphon.sim.log import Delivered, MemberLog, Sent, Viewed
from antiphon.sim.node_world import NodeWorld
from antiphon.sim.oracles import check_group, one_stream, orphans, primary
from antiphon.sim.swarm import Case, NodeWeather, default_cases, faults_of, run_seed
from antiphon.sim.swarm.corruption import Corrupter, Corruption
from antiphon.sim.swarm.play import Play
from antiphon.sim.swarm.strange_parents import CLASSES

SEEDS = 600


def weathers(fault: str) -> list[NodeWeather]:
    return [NodeWeather.of(case) for case in default_cases(range(SEEDS), "nodes") if fault in faults_of(case)]


# -- what is generated -----------------------------------------------------------------------------------------------------------


def test_reboots_last_up_to_ten_seconds_and_happen_while_cut_off() -> None:
    """A restart that is always late, or always in reach of the others, never meets a member that still believes in the dead one."""
    away: list[float] = []
    cut = 0
    for seed in range(100):
        acts = NodeWeather.of(Case(seed=seed, kind="nodes", faults=("reboot",))).acts
        for act in acts:
            if act.verb == "restart":
                [crash] = [other.at for other in acts if other.verb == "crash" and other.who == act.who]
                away.append(act.at - crash)
                cuts = {other.verb: other.at for other in acts if other.links and other.links[0][0] == act.who}
                cut += bool(cuts) and cuts["cut"] <= crash <= act.at < cuts["mend"]
    assert min(away) == 0.0
    assert 5.0 < max(away) <= 10.0
    assert cut > 10


def test_nodes_start_while_nobody_reaches_them() -> None:
    """Were a link open when the node starts, its first advertisement would be answered, and discovery would need nothing more."""
    creators = 0
    for weather in weathers("unreachable"):
        assert weather.isolated
        assert not weather.advertises
        everybody = {*weather.names, *weather.late, *weather.isolated}
        for name in weather.isolated:
            acts = [act for act in weather.acts if act.who == name or (act.links and act.links[0][0] == name)]
            cut = next(act for act in acts if act.verb == "cut" and len(act.links) == 2 * (len(everybody) - 1))
            start = next(act for act in acts if act.verb in ("create", "join"))
            mend = next(act for act in acts if act.verb == "mend" and act.links == cut.links)
            assert cut.at <= start.at < mend.at
            creators += start.verb == "create"
    assert creators


def test_every_kind_of_strange_parent_is_sent() -> None:
    """A class of ids that is never named is one for which nobody knows what happens."""
    sent: Counter[str] = Counter()
    for seed in range(20):
        case = Case(seed=seed, kind="nodes", order="semantic", faults=("parents", "reboot"))
        play = Play(case, NodeWeather.of(case))
        play.run()
        assert play.strange is not None
        sent += play.strange.sent
    assert set(sent) == set(CLASSES)


def test_frames_are_altered_in_every_field() -> None:
    """A field that is never altered is one that is trusted without a test."""
    parents = [MessageId(MemberId("b#2"), 4), MessageId(MemberId("c#3"), 5)]
    batch = Batch.compose(GroupId("g#0"), MemberId("a#1"), 7, 3, (b"one", b"two"), parents, stamp=[1, 2], sent_at=0.5)
    wire = codec.encode(batch)
    corrupter = Corrupter(Corruption(at=0.0, until=1.0, share=1.0, bits=0.3, replaces=0.5, copies=3), 5)
    assert corrupter.pass_on("data", wire) == [wire]
    corrupter.active = True
    changed: Counter[str] = Counter()
    arrived = [frame for _ in range(1_000) for frame in corrupter.pass_on("data", wire)]
    for altered in arrived:
        try:
            frame = codec.decode(altered)
        except codec.BadFrame:
            changed["malformed"] += 1
            continue
        if isinstance(frame, Batch):
            changed.update(field for field in Batch.__struct_fields__ if getattr(frame, field) != getattr(batch, field))
    assert set(changed) >= {"malformed", "group", "sender", "view", "first", "payloads", "parents", "stamp", "sent_at", "named", "whose"}
    assert 300 < arrived.count(wire) < 700


def test_corruption_spares_what_is_no_data_where_it_is_to() -> None:
    """Altered control frames do other damage; a run in which they hide what altered data does tells nothing about either."""
    corrupter = Corrupter(Corruption(at=0.0, until=1.0, share=1.0, data_only=True, replaces=1.0), 5)
    corrupter.active = True
    nack = codec.encode(Nack(GroupId("g#0"), MemberId("a#1"), 7, [(0, 1, 2, 0)]))
    assert corrupter.pass_on("propose", nack) == [nack]
    assert corrupter.pass_on("nack", nack) != [nack]


def test_a_faulty_node_sends_what_its_ordering_would_refuse() -> None:
    """Were the frame of a faulty node checked too, the others would never see it."""
    world = NodeWorld(seed=3, nodes=("a", "b"))
    assert world.gather(options=GroupOptions(order="semantic"))
    stranger = MessageId(MemberId("z#0000000000000001"), 1)
    with pytest.raises(UnknownParent):
        world.send("a", b"refused", stranger)
    accepted = world.send("a", b"sent", stranger, unchecked=True)
    assert accepted.seqno == 1
    with pytest.raises(UnknownParent):
        world.send("a", b"refused again", stranger)


# -- what is judged --------------------------------------------------------------------------------------------------------------


def sees(promise: str, **case: Any) -> bool:
    return any(promise in run_seed(Case(seed=seed, kind="nodes", **case)).broken for seed in range(12))


def test_a_member_that_is_never_evicted_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that waits for a stuck reader for ever would pass."""
    monkeypatch.setattr(Slowness, "on_view", lambda self: None)
    assert sees("eviction", order="fifo", faults=("stuck",))


def test_unneeded_requests_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request for everything that is a little late would pass."""
    monkeypatch.setattr(Repair, "_wait_s", lambda self, stream: 0.0)
    assert sees("requests", order="fifo", faults=("jitter",))


@pytest.mark.parametrize("multicast", ["reliable", "tree"])
def test_requests_for_what_only_others_told_of_are_seen(multicast: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request for what a nearer member already has would pass."""
    monkeypatch.setattr(Repair, "_hearsay_s", lambda self, stream: 0.0)
    assert sees("requests", order="fifo", multicast=multicast, faults=("jitter",))


def test_a_group_that_is_never_heard_of_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that hears of no group would pass, because somebody asks for it."""
    monkeypatch.setattr(Directory, "_answer_soon", lambda self, wanted: None)
    assert sees("discovery", order="fifo", faults=("unreachable",))


def test_a_group_that_does_not_recover_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that takes nothing any more after the first frame that makes no sense would pass."""
    receive, struck = Membership.receive, set[MemberId]()

    def sulk(self: Membership, now: float, source: Address, frame: Any, wire: bytes) -> Any:
        if type(frame) is Batch and frame.view != self.port.view.id if self.port.view is not None else False:
            struck.add(self.me)
        return None if self.me in struck and type(frame) is Batch else receive(self, now, source, frame, wire)

    monkeypatch.setattr(Membership, "receive", sulk)
    assert sees("recovery", order="fifo", faults=("corruption",))


def a_life(name: str, *events: Any) -> MemberLog:
    return MemberLog(MemberId(name), list(events))


def test_an_orphan_that_is_not_marked_is_seen() -> None:
    """The application would look for a parent that does not exist."""
    a, b = MemberId("a#1"), MemberId("b#1")
    view = View(1, (a, b))
    child, stranger = MessageId(a, 1), MessageId(MemberId("z#1"), 1)
    sent = Sent(0.1, child, (stranger,), True)
    marked = a_life("a#1", Viewed(0.0, view), sent, Delivered(0.1, child, lost=(stranger,), view=1))
    plain = a_life("b#1", Viewed(0.0, view), Delivered(0.2, child, view=1))
    assert [name_of(violation.member) for violation in orphans([marked, plain])] == ["b"]
    broken = check_group([marked, plain], GroupOptions(order="semantic"))
    assert "orphans" in {violation.promise for violation in broken}


def test_a_number_that_nobody_sent_is_judged_only_by_those_who_knew_its_sender() -> None:
    """A newcomer cannot know how far a member got that was gone before it came."""
    a, b, gone = MemberId("a#1"), MemberId("b#1"), MemberId("x#1")
    child, never = MessageId(b, 1), MessageId(gone, 10_000)
    early = a_life("a#1", Viewed(0.0, View(1, (a, gone))), Viewed(1.0, View(2, (a, b)), 1), Delivered(2.0, child, view=2))
    late = a_life("b#1", Viewed(1.0, View(2, (a, b))), Sent(2.0, child, (never,), True), Delivered(2.0, child, view=2))
    left = a_life("x#1", Viewed(0.0, View(1, (a, gone))))
    assert [name_of(violation.member) for violation in orphans([early, late, left])] == ["a"]


def test_a_member_that_founds_a_group_of_a_majority_anew_is_seen() -> None:
    """Two lines of views under `majority` would pass, if both begin with one member."""
    a, b, again = MemberId("a#1"), MemberId("b#1"), MemberId("b#2")
    first, grown, second = View(1, (a,)), View(2, (a, b)), View(3, (again,))
    lives = [
        a_life("a#1", Viewed(0.0, first), Viewed(1.0, grown, 1, ((a,),))),
        a_life("b#1", Viewed(1.0, grown)),
        a_life("b#2", Viewed(2.0, second)),
    ]
    assert [name_of(violation.member) for violation in primary(lives)] == ["b"]


def test_orders_that_are_no_parts_of_one_are_seen() -> None:
    """Each of two restarted members may agree with the one that got furthest, and yet not with the other."""
    a = MemberId("a#1")
    one, two, three = (MessageId(a, number) for number in (1, 2, 3))
    view = View(1, (a,))
    sends = [Sent(0.1, message) for message in (one, two, three)]
    furthest = a_life("a#1", Viewed(0.0, view), *sends, Delivered(0.2, one, view=1), Delivered(0.3, MessageId(a, 4), view=1))
    furthest.events.insert(1, Sent(0.1, MessageId(a, 4)))
    furthest.events.append(Delivered(0.4, MessageId(a, 5), view=1))
    furthest.events.insert(1, Sent(0.1, MessageId(a, 5)))
    left = a_life("b#1", Viewed(0.0, view), Delivered(0.5, two, view=1), Delivered(0.6, three, view=1))
    right = a_life("b#2", Viewed(0.0, view), Delivered(0.5, three, view=1), Delivered(0.6, two, view=1))
    assert one_stream([furthest, left]) == []
    [violation] = one_stream([furthest, left, right])
    assert violation.promise == "one_stream"
    assert set(violation.messages) == {two, three}


@pytest.mark.parametrize("fault", ["founding", "reboot"])
@pytest.mark.parametrize("seed", range(4))
def test_groups_that_go_on_in_every_part_bear_it(fault: str, seed: int) -> None:
    """Founding at any moment, and coming back at an old address, would break a group."""
    outcome = run_seed(Case(seed=seed, kind="nodes", order="total", faults=(fault,)))
    assert outcome.ok, str(outcome)


def test_acts_of_a_node_that_has_not_started_do_nothing() -> None:
    """A node that founds late and was to crash early would end the run with an error."""
    case = Case(seed=1, kind="nodes", faults=("founding", "reboot"))
    weather = NodeWeather.of(case)
    late = msgspec.structs.replace(weather, starts=(0.0, *(6.0 for _ in weather.names[1:])))
    assert not run_seed(case, late).error
