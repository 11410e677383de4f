"""Who hears whose multicasts; time is given by hand."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from antiphon.model.ids import Address
from antiphon.runtime.transports.udp import audience as a
from antiphon.runtime.transports.udp.acquaintances import HEARD, MET, Acquaintances

ANA, BEN, CAT = (Address(f"10.0.0.{host}:1") for host in (1, 2, 3))


@pytest.fixture
def audiences() -> a.Audiences:
    return a.Audiences(random.Random(7))


def test_who_has_not_answered_gets_its_own_copy(audiences: a.Audiences) -> None:
    """A member behind a router would never receive what is multicast."""
    audience = audiences.of(0.0, (ANA, BEN, CAT))
    assert audience is not None
    assert audience.deaf(0.0) == (ANA, BEN, CAT)
    assert audiences.heard(0.0, audience.number, ANA)
    assert audiences.heard(0.0, audience.number, BEN)
    assert (audience.hearing(1.0), audience.deaf(1.0)) == (2, (CAT,))
    assert audiences.heard(1.0, audience.number, CAT)
    assert (audience.hearing(1.0), audience.deaf(1.0)) == (3, ())


def test_an_answer_counts_for_a_while_only(audiences: a.Audiences) -> None:
    """A member that moved to another network would be believed to hear for ever."""
    audience = audiences.of(0.0, (ANA, BEN))
    assert audience is not None
    audiences.heard(0.0, audience.number, ANA)
    audiences.heard(1.0, audience.number, BEN)
    assert audience.deaf(a.HEARD_S - 0.1) == ()
    assert audience.deaf(a.HEARD_S) == (ANA,)
    assert audience.deaf(1.0 + a.HEARD_S) == (ANA, BEN)


def test_nobody_answers_for_another_audience(audiences: a.Audiences) -> None:
    """A node outside, or one that guesses, could make members count as hearing that do not."""
    audience = audiences.of(0.0, (ANA, BEN))
    assert audience is not None
    assert not audiences.heard(0.0, audience.number, CAT)
    assert not audiences.heard(0.0, audience.number ^ 1, ANA)
    assert audience.hearing(0.0) == 0


def test_the_same_nodes_are_one_audience_in_any_order(audiences: a.Audiences) -> None:
    """Twenty groups of the same members would be called twenty times as often."""
    assert audiences.of(0.0, (ANA, BEN)) is audiences.of(0.0, (BEN, ANA))
    assert audiences.of(0.0, (ANA, BEN)) is not audiences.of(0.0, (ANA, CAT))


def _calls(audience: a.Audience, until: float, step: float = 0.01) -> list[float]:
    return [now for tick in range(int(until / step)) if audience.is_call_due(now := tick * step)]


def test_calls_become_rare_while_nobody_answers(audiences: a.Audiences) -> None:
    """Where multicast does not work, the network would be asked again every second, by everybody."""
    audience = audiences.of(0.0, (ANA, BEN))
    assert audience is not None
    calls = _calls(audience, 120.0)
    assert calls[0] == 0.0
    assert len(calls) < 14
    assert max(later - earlier for earlier, later in pairwise(calls)) == pytest.approx(a.CALL_MAX_S, abs=0.1)


def test_calls_are_often_enough_that_an_answer_may_be_lost(audiences: a.Audiences) -> None:
    """One lost datagram would send a whole group back to unicast."""
    audience = audiences.of(0.0, (ANA, BEN))
    assert audience is not None
    calls, now = 0, 0.0
    while now < 20.0:
        if audience.is_call_due(now):
            calls += 1
            if calls % 3 == 1:  # two of three are lost
                for member in (ANA, BEN):
                    audiences.heard(now, audience.number, member)
        assert audience.deaf(now) == ()
        now += 0.01
    assert calls < 30


def test_a_refused_multicast_makes_everybody_count_as_deaf(audiences: a.Audiences) -> None:
    """After the interface was down members would be multicast to that are not there any more."""
    audience = audiences.of(0.0, (ANA, BEN))
    assert audience is not None
    audiences.heard(0.0, audience.number, ANA)
    audiences.heard(0.0, audience.number, BEN)
    audience.is_call_due(0.0)
    audiences.silence()
    assert audience.deaf(0.1) == (ANA, BEN)
    assert audience.is_call_due(0.1)


def test_too_many_audiences_are_served_by_unicast_until_others_are_unused(audiences: a.Audiences) -> None:
    """A node in very many groups would call a new audience with every frame, or remember them all for ever."""
    many = [(ANA, Address(f"10.1.{number >> 8}.{number & 255}:1")) for number in range(a.AUDIENCES + 1)]
    assert all(audiences.of(0.0, to) is not None for to in many[:-1])
    assert audiences.of(1.0, many[-1]) is None
    audiences.of(5.0, many[0])
    assert audiences.of(5.0, many[-1]) is not None
    assert audiences.stats(5.0)["audiences"] == 2


def test_a_node_is_meant_only_where_it_was_called() -> None:
    """Nodes outside the group would be handed its frames, and answer them."""
    invitations = a.Invitations()
    invitations.accept(ANA, 7)
    assert invitations.include(ANA, 7)
    assert not invitations.include(ANA, 8)
    assert not invitations.include(BEN, 7)


def test_what_is_remembered_of_callers_is_bounded() -> None:
    """Calls under invented addresses would fill the memory."""
    invitations = a.Invitations()
    for number in range(a.AUDIENCES + 1):
        invitations.accept(ANA, number)
    assert not invitations.include(ANA, 0)
    assert invitations.include(ANA, 1)
    for number in range(a.SPEAKERS - 1):
        invitations.accept(Address(f"10.2.{number >> 8}.{number & 255}:1"), 1)
        assert invitations.include(ANA, 1), "who is heard of is not forgotten for strangers"
    invitations.accept(BEN, 1)
    assert invitations.include(ANA, 1)
    assert not invitations.include(Address("10.2.0.0:1"), 1)


def test_a_node_is_met_when_it_was_heard_and_answered() -> None:
    """A datagram under an invented address would make this node send there with every broadcast."""
    met = Acquaintances()
    met.hear(ANA)
    met.address(BEN)
    assert met.met == {}
    met.address(ANA)
    met.hear(BEN)
    met.address(BEN)
    assert list(met.met) == [ANA, BEN]
    met.hear_by_multicast(ANA)
    met.address(ANA)
    assert list(met.met) == [BEN], "who is near hears the multicast"
    met.forget_multicast()
    met.address(ANA)
    assert list(met.met) == [BEN, ANA]


def test_acquaintances_are_bounded() -> None:
    """Years of passing nodes would all be remembered, and written to."""
    met = Acquaintances()
    for number in range(3 * HEARD):
        source = Address(f"10.3.{number >> 8}.{number & 255}:1")
        met.hear(source)
        met.address(source)
    assert len(met.met) == MET
    assert source in met.met
