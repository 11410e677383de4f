"""Open groups: whoever is outside may speak, is heard once by everybody, and hears nothing."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.debugger.rule import Rule
from antiphon.errors import JoinFailed, UsageError
from antiphon.model.control import Wants
from antiphon.model.events import GuestRefused, Installed, Recovered, StateArrived
from antiphon.model.ids import MemberId, name_of
from antiphon.model.options import GroupOptions
from antiphon.sim.network import NetworkModel, Uniform

ORDERS = ["unordered", "fifo", "causal", "total", "semantic"]


def opened(company: Any, members: str = "abc", guest: str = "x", seed: int = 7, network: NetworkModel | None = None, **options: Any) -> Any:
    """Members in an open group, and one node outside that has heard of it."""
    world = company(members, seed, late=guest, network=network)
    assert world.gather(options=GroupOptions(**({"open": True} | options)))
    for name in guest:
        world.start(name)
    assert world.wait_for(lambda: all(world.known(name) for name in guest), 10.0) or advertised(world, guest)
    return world


def advertised(world: Any, guests: str) -> bool:
    for _ in range(20):
        for name in guests:
            world.advertise(name)
        if world.wait_for(lambda: all(world.known(name) for name in guests), 1.0):
            return True
    return False


def words(world: Any, name: str, outsider: str = "x") -> list[tuple[MemberId, int, bytes]]:
    """What a member delivered of an outsider, as the application sees it: whose, its own number for it, and what."""
    found = []
    for _, event in world.heard[name]:
        if type(event) is tuple or type(event) is Recovered:
            batch, low, high = event if type(event) is tuple else (event.batch, event.low, event.high)
            for seqno in range(low, high + 1):
                if batch.guests and seqno in batch.guests and name_of(batch.guests[seqno][0]) == outsider:
                    found.append((*batch.guests[seqno], batch.payload(seqno)))
    return found


@pytest.mark.parametrize("order", ORDERS)
def test_an_outsider_is_heard_once_by_everyone_under_its_own_name(company: Any, order: str) -> None:
    """A sensor that is in no group would be heard twice, by some only, or as if a member had spoken."""
    world = opened(company, order=order)
    for number in range(1, 11):
        assert world.send_guest("x", b"%d" % number) == number
        world.run(0.03)
    assert world.settle(10.0)
    heard = words(world, "a")
    assert len({outsider for outsider, _, _ in heard}) == 1
    in_order = [(number, b"%d" % number) for number in range(1, 11)]
    for name in "abc":
        told = [(number, payload) for _, number, payload in words(world, name)]
        assert (sorted(told) if order in ("unordered", "semantic") else told) == in_order
        assert {outsider for outsider, _, _ in words(world, name)} == {heard[0][0]}
    assert world.check() == []


def test_an_outsider_hears_nothing(company: Any) -> None:
    """Whoever may speak to a group could listen to it without being in its view."""
    world = opened(company)
    world.send_guest("x", b"hello?")
    world.burst("abc", 3)
    assert world.settle(10.0)
    assert not [event for _, event in world.heard["x"] if type(event) is tuple or type(event) in (Recovered, Installed)]
    assert not any(kind == "data" for _, destination, kind in world.frames if destination == "x")
    assert not world.is_member("x")


@pytest.mark.parametrize("seed", range(6))
def test_when_its_contact_dies_it_goes_on_with_another(company: Any, seed: int) -> None:
    """An outsider would fall silent with the one member it spoke to, or be heard twice after it."""
    world = opened(company, "abcd", seed=seed, order="fifo")
    sent = 0
    for _ in range(5):
        sent = world.send_guest("x", b"early")
        world.run(0.02)
    contact = max("abcd", key=lambda name: world.frames["x", name, "guest"])
    assert world.frames["x", contact, "guest"] > 0
    for _ in range(5):
        sent = world.send_guest("x", b"late")
    world.run(0.001 * seed)  # the contact dies before, while or after it takes them
    world.crash(contact)
    for _ in range(5):
        world.run(0.3)
        sent = world.send_guest("x", b"later")
    world.run(3.0)
    assert world.settle(20.0)
    assert sent == 15
    for name in "abcd".replace(contact, ""):
        numbers = [number for _, number, _ in words(world, name)]
        assert sorted(set(numbers)) == sorted(numbers)
        assert numbers == sorted(numbers)
        assert set(range(1, 6)) | set(range(11, 16)) <= set(numbers)
        assert numbers == [number for _, number, _ in words(world, next(other for other in "abcd" if other != contact))]
    assert world.check() == []


def test_a_lost_receipt_makes_no_second_message(company: Any) -> None:
    """Every lost datagram between an outsider and a group would double a message."""
    world = opened(company, network=NetworkModel(latency=Uniform(0.001, 0.01), loss=0.3, duplicate=0.1), order="fifo")
    for number in range(1, 31):
        world.send_guest("x", b"%d" % number)
        world.run(0.05)
    world.run(10.0)
    world.network = NetworkModel()
    assert world.settle(20.0)
    for name in "abc":
        assert [number for _, number, _ in words(world, name)] == list(range(1, 31))
    assert world.check() == []


@pytest.mark.parametrize("seed", range(1, 5))
def test_what_is_in_a_newcomers_state_is_not_delivered_to_it_again(company: Any, seed: int) -> None:
    """A payment would be in the account that a newcomer is given, and be booked once more when the outsider goes on with another member."""
    world = opened(company, "ab", guest="xn", seed=seed, order="total")
    for name in "abn":
        world.on_state(name, lambda name=name: b"|".join(payload for _, _, payload in words(world, name)), lambda state: None)
    world.rules.append(Rule.parse("drop taken"))
    world.send_guest("x", b"pay 100")
    world.run(0.2)
    contact = max("ab", key=lambda name: world.frames["x", name, "guest"])
    world.join("n", wants=Wants(kind="state"))
    assert world.wait_for(lambda: world.is_member("n") and world.view_of("n") is not None and world.member("n").synchronised, 20.0)
    assert any(type(event) is StateArrived and event.state == b"pay 100" for _, event in world.heard["n"])
    other = next(name for name in "ab" if name != contact)
    world.rules[:] = [Rule.parse(f"drop guest to {other}")]
    world.crash(contact)
    world.advertise("x")
    world.run(1.0)
    world.send_guest("x", b"pay 7")
    world.run(15.0)
    assert world.frames["x", "n", "guest"] > 0
    assert [payload for _, _, payload in words(world, other)] == [b"pay 100", b"pay 7"]
    assert [payload for _, _, payload in words(world, "n")] == [b"pay 7"]
    assert world.check() == []


def test_what_an_outsider_said_on_one_side_reaches_the_other(company: Any) -> None:
    """After a merge the two sides would disagree on what was said from outside, or hear it twice."""
    world = opened(company, "abcd", order="causal")
    world.partition(["abx", "cd"])
    world.run(3.0)
    for number in range(1, 6):
        world.send_guest("x", b"%d" % number)
    world.run(3.0)
    world.heal()
    assert world.settle(20.0)
    for name in "abcd":
        assert [number for _, number, _ in words(world, name)] == [1, 2, 3, 4, 5]
    assert world.alike("abcd")
    assert world.check() == []


def test_two_outsiders_are_two(company: Any) -> None:
    """What two outsiders say would be taken for one voice, and one of them dropped as a repetition."""
    world = opened(company, guest="xy")
    for name in "xyxy":
        world.send_guest(name, name.encode())
    assert world.settle(10.0)
    world.run(1.0)
    for name in "abc":
        for guest in "xy":
            assert [(number, payload) for _, number, payload in words(world, name, guest)] == [(1, guest.encode()), (2, guest.encode())]


def test_a_closed_group_refuses_and_says_so(company: Any) -> None:
    """Messages to a closed group would vanish without a word; or a group that trusts its members would hear strangers."""
    world = opened(company, open=False)
    world.send_guest("x", b"let me in")
    world.run(2.0)
    (refused,) = world.told("x", GuestRefused)
    assert (refused.taken, name_of(refused.group)) == (0, "g")
    assert "join" in refused.why
    for name in "abc":
        assert words(world, name) == []
    assert world.settle(5.0)
    assert world.check() == []


def test_a_group_that_is_gone_is_reported(company: Any) -> None:
    """An outsider would wait for ever for a group that nobody is in."""
    world = opened(company)
    world.send_guest("x", b"hello")
    world.run(1.0)
    for name in "abc":
        world.crash(name)
    world.send_guest("x", b"is anybody there?")
    world.run(60.0)
    (refused,) = world.told("x", GuestRefused)
    assert refused.taken == 1
    assert "no member has answered" in refused.why


def test_members_and_strangers_are_told_what_to_do(company: Any) -> None:
    """A wrong call would be answered by silence instead of a sentence."""
    world = opened(company)
    with pytest.raises(UsageError, match="use submit"):
        world.send_guest("a", b"I am inside")
    lonely = company("a")
    with pytest.raises(JoinFailed, match="advertise"):
        lonely.node("a").submit_guest(lonely.now, "nowhere#0000000000000001", b"hello")


def test_an_outsider_of_a_stopped_minority_goes_to_the_majority(company: Any) -> None:
    """An outsider would wait at a member that may not send although others may."""
    world = opened(company, "abcde", partitions="majority", order="fifo")
    world.send_guest("x", b"1")
    world.run(1.0)
    contact = max("abcde", key=lambda name: world.frames["x", name, "guest"])
    side = "".join([contact, next(name for name in "abcde" if name != contact)])
    rest = "".join(name for name in "abcde" if name not in side)
    for part, other in ((side, rest), (rest, side)):
        for source in part:
            for destination in other:
                world.cut(source, destination)
    world.run(4.0)
    world.send_guest("x", b"2")
    world.run(4.0)
    heard_in_time = [number for _, number, _ in words(world, rest[0])]
    world.heal()
    assert world.settle(20.0)
    world.run(5.0)
    for name in "abcde":
        assert [number for _, number, _ in words(world, name)] == [1, 2]
    assert heard_in_time == [1, 2]
    assert world.check() == []
