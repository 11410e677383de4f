"""What strangers can make a node do: little, and never more than was written down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from antiphon.model.ids import Address
from antiphon.runtime.security import PreSharedKey, Sealer, candidate, introductions, sessions

Credentials = Callable[[str], Any]
FRAME = b"\x93 a frame of the protocol, as long as they usually are at the least"
KEY = PreSharedKey("the nodes' own: 7b1e0f4a93")


def test_what_comes_before_the_proof_is_handed_on_after_it_in_order(network: Any, credentials: Credentials) -> None:
    """The first frames of every node would be lost, and asked for again one time-out later."""
    network.start("ana", credentials("ana")), network.start("ben", credentials("ben"))
    network.loses = lambda source, to, datagram: source == "ben"
    for number in range(10):
        network.say("ana", "ben", FRAME + b"%d" % number)
    assert network.got["ben"] == []
    network.loses = lambda source, to, datagram: False
    network.wait(1)
    assert network.got["ben"] == [(FRAME + b"%d" % number, "") for number in range(10)]


def test_only_so_much_waits_for_a_proof(network: Any, credentials: Credentials) -> None:
    """Whoever never proves itself would fill the memory meanwhile."""
    network.start("ana", credentials("ana"))
    ben = network.start("ben", credentials("ben"))
    network.loses = lambda source, to, datagram: source == "ben"
    for _ in range(candidate.WAITING_FRAMES + 10):
        network.say("ana", "ben", FRAME)
    assert ben.drops == {"unproven_dropped": 10}
    network.wait(30)
    assert ben.drops == {"unproven_dropped": 10, "stale_session": candidate.WAITING_FRAMES}
    for _ in range(5):
        network.say("ana", "ben", b"x" * 300_000)
    assert ben.drops["unproven_dropped"] == 12, "three times 300,000 bytes are what fits into a mebibyte"


def test_what_waits_in_all_is_bounded(network: Any) -> None:
    """Two hundred strangers with a mebibyte each would be a quarter of a gibibyte."""
    ben = network.start("ben", KEY)
    for number in range(24):
        ana = Sealer(KEY, address=Address(f"ana{number}"), now=network.now)
        network.inject(f"ana{number}", "ben", ana.seal(b"x" * 1_000_000, ""))
    assert ben.drops["unproven_dropped"] == 24 - candidate.WAITING_BYTES_IN_ALL // 1_000_000
    network.wait(30)
    ana = Sealer(KEY, address=Address("ana"), now=network.now)
    before = ben.drops["unproven_dropped"]
    network.inject("ana", "ben", ana.seal(b"x" * 1_000_000, ""))
    assert ben.drops["unproven_dropped"] == before, "what was given up has made room"


@pytest.mark.parametrize("lost", [0, 5])
def test_a_stranger_is_never_sent_more_than_it_sent(network: Any, credentials: Credentials, lost: int) -> None:
    """Whoever forges a sender's address would have us flood the one who lives there."""
    ana = network.start("ana", credentials("ana"))
    network.start("ben", credentials("ben"))
    network.loses = lambda source, to, datagram: source == "ben"
    sealed = [ana.seal(b"x" * 40, "") for _ in range(lost + 1)]
    for datagram in sealed:
        network.inject("ana", "ben", datagram)
    network.wait(30)
    sizes: Counter[str] = Counter()
    for source, _, datagram in network.recorded:
        sizes[source] += len(datagram)
    assert 0 < sizes["ben"] <= sizes["ana"]


def test_a_question_that_would_be_larger_than_what_came_is_not_asked(network: Any) -> None:
    """The smallest datagram would be the best to flood others with."""
    network.start("ana", KEY)
    ben = network.start("ben", KEY)
    tiny = network.sealers["ana"].seal(b"", "")
    assert ben.open(network.now, Address("ana"), tiny) == []
    assert ben.outgoing() == []
    ben.open(network.now, Address("ana"), network.sealers["ana"].seal(b"", ""))
    assert len(ben.outgoing()) == 1, "two of them are large enough"


def test_a_flood_of_recorded_sessions_takes_a_bounded_place(network: Any) -> None:
    """A thousand sessions of the past, played back, would take the place of those alive."""
    ben = network.start("ben", KEY)
    for number in range(1_000):
        dead = Sealer(KEY, address=Address(f"dead{number}"), now=network.now)
        network.inject(f"dead{number}", "ben", dead.seal(FRAME, ""))
    assert ben.stats()["unproven"] == candidate.CANDIDATES
    assert ben.drops == {"too_many_sessions": 744, "unproven_dropped": 744}
    network.start("ana", KEY)
    network.say("ana", "ben", FRAME)
    network.wait(1)
    assert network.got["ben"] == [(FRAME, "")], "and somebody who lives still comes in"
    network.wait(30)
    assert ben.stats()["unproven"] == 0


def test_a_flood_of_knocks_is_answered_within_bounds_and_keeps_nothing(network: Any, authority: Any) -> None:
    """Strangers would buy our signatures, a millisecond each, with a datagram each."""
    ben = network.start("ben", authority.issue("ben"))
    start = b"\xc1A\x01\x03" + ben.seal(FRAME, "")[4:12]
    for number in range(3_000):
        knock = start + number.to_bytes(16, "big") + bytes(8) + ben.session + number.to_bytes(16, "big")
        ben.open(network.now, Address(f"eve{number}"), knock)
    echoes = ben.outgoing()
    assert len(echoes) == 1_000
    assert all(len(echo) == len(knock) for _, echo in echoes)
    assert ben.stats()["handshakes"] == 0
    assert ben.drops == {"unproven_dropped": 2_000}


def test_a_flood_of_handshakes_from_real_addresses_is_bounded(network: Any, authority: Any) -> None:
    """Whoever has a thousand ports of its own would get a thousand handshakes kept."""
    ben = network.start("ben", authority.issue("ben"))
    start = b"\xc1A\x01\x03" + ben.seal(FRAME, "")[4:12]
    most = 0
    for number in range(2_000):
        # The first half comes at once, the second over ten seconds.
        network.now += 0.01 if number >= 1_000 else 0.0
        if number == 1_000:
            assert most == 200
            assert ben.drops["too_many_sessions"] == 800
        mine, nonce, at = number.to_bytes(16, "big"), number.to_bytes(16, "little"), Address(f"eve{number}")
        ben.open(network.now, at, start + mine + bytes(8) + ben.session + nonce)
        ((_, echo),) = ben.outgoing()
        talk = b"\xc1A\x01\x05" + start[4:12] + mine + (1).to_bytes(8, "big") + ben.session + nonce + echo[52:68] + b"no ClientHello"
        ben.open(network.now, at, talk)
        most = max(most, int(str(ben.stats()["handshakes"])))
    assert most == introductions.HOSTED
    network.wait(30)
    assert ben.stats()["handshakes"] == 0
    assert ben.deadline is None


def test_a_handshake_without_its_cookie_is_not_begun(network: Any, authority: Any) -> None:
    """Forged addresses would do for making us work."""
    ben = network.start("ben", authority.issue("ben"), {"trip": KEY})
    rest = bytes(16) + (1).to_bytes(8, "big") + ben.session + bytes(32) + b"hello"
    network.inject("eve", "ben", b"\xc1A\x01\x05" + ben.seal(FRAME, "")[4:12] + rest)
    assert ben.drops == {"forged": 1}
    network.inject("eve", "ben", b"\xc1A\x01\x05" + ben.seal(FRAME, "trip")[4:12] + rest)
    assert ben.drops == {"forged": 1, "malformed": 1}, "groups have keys, and no handshakes of their own"
    assert ben.stats()["handshakes"] == 0


def test_strangers_do_not_set_the_pace(network: Any) -> None:
    """Each session played back would make rounds of its own, and all together keep the processor busy."""
    ben = network.start("ben", KEY)
    for number in range(candidate.CANDIDATES):
        dead = Sealer(KEY, address=Address(f"dead{number}"), now=network.now)
        network.inject(f"dead{number}", "ben", dead.seal(b"x" * 1_000, ""))
        network.now += 0.0007
    rounds, until = 0, network.now + 1.0
    while ben.deadline is not None and ben.deadline < until:
        ben.tick(ben.deadline)
        rounds += 1
    assert 5 < rounds <= 51


def test_the_longest_silent_session_makes_room(network: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that met more others than it can remember would remember the wrong ones."""
    monkeypatch.setattr(sessions, "SESSIONS", 3)
    ben = network.start("ben", KEY)
    for name in ("ana", "cem", "dee"):
        network.start(name, KEY)
        network.say(name, "ben", FRAME)
        network.wait(1)
    network.say("ana", "ben", FRAME)
    network.wait(1)
    network.start("eve", KEY)
    network.say("eve", "ben", FRAME)
    assert ben.drops == {"too_many_sessions": 1}
    asked = len(network.recorded)
    network.say("ana", "ben", FRAME)
    assert len(network.recorded) == asked + 1, "ana spoke last but one, and need not be asked"
    network.say("cem", "ben", FRAME)
    assert len(network.recorded) > asked + 2, "cem was silent longest: asked anew, and heard"
    assert network.got["ben"].count((FRAME, "")) == 7


def test_a_nodes_own_datagrams_are_not_its_peers(network: Any, credentials: Credentials) -> None:
    """Sent back by a switch or an enemy, a node's words would seem to come from a member."""
    ana = network.start("ana", credentials("ana"))
    for source in ("ana", "eve"):
        network.inject(source, "ana", ana.seal(FRAME, ""))
    assert network.got["ana"] == []
    assert ana.drops == {"reflected": 2}
