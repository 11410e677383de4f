"""Which network interface a node uses."""

from __future__ import annotations

import sys

import pytest

from antiphon.errors import InvalidOption
from antiphon.runtime.transports.udp import interface as i
from antiphon.runtime.transports.udp.datagram import DATAGRAM_LIMIT

LO = i.Interface("lo", "127.0.0.1", 1, 65_536)
DOWN = i.Interface("eth0", "192.0.2.1", 2, 1_500, up=False)
WIRE = i.Interface("eth1", "192.0.2.2", 3, 1_500)
JUMBO = i.Interface("eth2", "192.0.2.3", 4, 9_000)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with four interfaces and a route through the last."""
    monkeypatch.setattr(i, "interfaces", lambda: [LO, DOWN, WIRE, JUMBO])
    monkeypatch.setattr(i, "_towards", lambda group: JUMBO.address)
    return monkeypatch


@pytest.mark.parametrize(
    ("bind", "wanted", "chosen"),
    [
        ("0.0.0.0", "eth1", WIRE),
        ("0.0.0.0", "192.0.2.2", WIRE),
        ("192.0.2.2", None, WIRE),
        ("192.0.2.2", "eth2", JUMBO),
        ("0.0.0.0", None, JUMBO),
        ("127.0.0.1", None, LO),
        ("127.0.0.9", None, i.Interface("lo", "127.0.0.9", 1, 65_536)),
        ("192.0.2.77", None, i.Interface("", "192.0.2.77", 0, 1_500)),
    ],
)
@pytest.mark.usefixtures("machine")
def test_it_is_the_one_asked_for_else_the_one_bound_to_else_the_one_routed_to(bind: str, wanted: str | None, chosen: i.Interface) -> None:
    """A node on a machine with several networks would speak on the wrong one, where nobody hears it."""
    assert i.choose(bind, wanted, ("239.1.2.3", 4)) == chosen


def test_without_a_route_the_first_that_is_up_will_do(machine: pytest.MonkeyPatch) -> None:
    """On a network of its own, without a router, a node would hear itself only."""
    machine.setattr(i, "_towards", lambda group: "")
    assert i.choose("0.0.0.0", None, None) == WIRE
    machine.setattr(i, "interfaces", lambda: [LO, DOWN])
    assert i.choose("0.0.0.0", None, None) == LO


def test_an_unknown_one_is_refused_with_those_that_there_are(machine: pytest.MonkeyPatch) -> None:
    """The person who misspelt it would have to find out elsewhere what it is called."""
    with pytest.raises(InvalidOption, match=r"eth1 \(192\.0\.2\.2\)"):
        i.choose("0.0.0.0", "eth9", None)
    machine.setattr(i, "interfaces", list)  # a system that tells nothing
    assert i.choose("0.0.0.0", "192.0.2.9", None).address == "192.0.2.9"
    with pytest.raises(InvalidOption, match="give an address"):
        i.choose("0.0.0.0", "eth1", None)


def test_datagrams_fit_the_interface() -> None:
    """Every large datagram would be cut by the network and lost with any piece of it, or on loopback sixty times as many would be sent."""
    assert [each.datagram_bytes for each in (LO, WIRE, JUMBO)] == [DATAGRAM_LIMIT, 1_472, 8_972]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells its interfaces")
def test_this_machine_has_a_loopback() -> None:
    """What the kernel answers would be read wrongly."""
    loopback = [each for each in i.interfaces() if each.address == "127.0.0.1"]
    assert [(each.name, each.up, each.is_loopback) for each in loopback] == [("lo", True, True)]
    assert loopback[0].mtu >= 16_384
    assert loopback[0].index == 1
