"""Whoever has the credential takes part, whoever has not has nothing; the same for both kinds of credentials."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from antiphon.errors import InvalidOption
from antiphon.model.frames import FRAME_LIMIT
from antiphon.model.ids import Address
from antiphon.runtime.security import SEAL_BYTES, PreSharedKey, Sealer

Credentials = Callable[[str], Any]
FRAME = b"\x93 a frame of the protocol, as long as they usually are at the least"
GROUP_KEY = PreSharedKey("the trip's own: 55c0a7d2e1")


def test_those_who_hold_the_credential_hear_each_other(network: Any, credentials: Credentials) -> None:
    """The group would be safe because nobody is in it."""
    network.start("ana", credentials("ana")), network.start("ben", credentials("ben"))
    for number in range(5):
        network.say("ana", "ben", FRAME + b"%d" % number)
        network.say("ben", "ana", FRAME + b"%d" % number)
    assert network.got["ben"] == network.got["ana"] == [(FRAME + b"%d" % number, "") for number in range(5)]
    assert not network.sealers["ana"].drops
    assert not network.sealers["ben"].drops


def test_frames_of_every_size_come_through_and_are_52_bytes_longer(network: Any, credentials: Credentials) -> None:
    """A transport that leaves too little room would cut every full frame."""
    network.start("ana", credentials("ana")), network.start("ben", credentials("ben"))
    network.say("ana", "ben", FRAME)
    for size in (0, 1, 60_000, FRAME_LIMIT):
        assert len(network.say("ana", "ben", b"x" * size)) == size + SEAL_BYTES
        assert network.got["ben"][-1] == (b"x" * size, "")


def test_nothing_of_a_frame_can_be_read_on_its_way(network: Any, credentials: Credentials) -> None:
    """Whoever listens at the switch would read along."""
    network.start("ana", credentials("ana")), network.start("ben", credentials("ben"))
    network.say("ana", "ben", FRAME)
    network.say("ana", "ben", FRAME)
    assert len(network.got["ben"]) == 2
    assert not any(FRAME[:12] in datagram for _, _, datagram in network.recorded)
    sealed = [datagram for _, _, datagram in network.recorded if len(datagram) == len(FRAME) + SEAL_BYTES]
    assert len({datagram[36:] for datagram in sealed}) == len(sealed) > 1, "equal frames must not look equal"


def test_a_frame_that_is_not_sealed_is_refused(network: Any, credentials: Credentials) -> None:
    """A node without any key could speak simply by not sealing."""
    ben = network.start("ben", credentials("ben"))
    network.inject("eve", "ben", FRAME)
    network.inject("eve", "ben", b"")
    assert network.got["ben"] == []
    assert ben.drops == {"no_key": 2}
    assert ben.outgoing() == []


def test_a_recorded_datagram_does_nothing_the_second_time(network: Any, credentials: Credentials) -> None:
    """Whoever recorded "pay" could have it paid again."""
    network.start("ana", credentials("ana"))
    ben = network.start("ben", credentials("ben"))
    network.say("ana", "ben", FRAME)
    again = network.say("ana", "ben", b"pay" * 20)
    network.inject("ana", "ben", again)
    assert [wire for wire, _ in network.got["ben"]] == [FRAME, b"pay" * 20]
    assert ben.drops == {"replayed": 1}


def test_everything_recorded_of_a_session_that_is_over_does_nothing(network: Any, credentials: Credentials) -> None:
    """Yesterday's traffic, played back at the restarted group, would be today's."""
    network.start("ana", credentials("ana")), network.start("ben", credentials("ben"))
    for number in range(8):
        network.say("ana", "ben", FRAME + b"%d" % number)
        network.say("ben", "ana", FRAME + b"%d" % number)
    recording = [datagram for source, to, datagram in network.recorded if (source, to) == ("ana", "ben")]
    network.start("ana", credentials("ana"))
    ben = network.start("ben", credentials("ben"))
    network.got.clear()
    for datagram in recording:
        network.inject("ana", "ben", datagram)
    network.wait(30)
    assert network.got["ben"] == []
    assert ben.drops["stale_session"] >= 8
    assert network.sealers["ana"].drops["stale_session"] > 0, "who is asked about a session it is not in says nothing"


def test_a_recording_played_back_while_its_sender_is_away_does_nothing(network: Any, credentials: Credentials) -> None:
    """As long as nobody contradicts, the dead would speak."""
    network.start("ana", credentials("ana")), network.start("ben", credentials("ben"))
    network.say("ana", "ben", FRAME)
    recording = [datagram for source, to, datagram in network.recorded if (source, to) == ("ana", "ben")]
    del network.sealers["ana"]
    ben = network.start("ben", credentials("ben"))
    network.got.clear()
    for _ in range(20):
        for datagram in recording:
            network.inject("ana", "ben", datagram)
        network.wait(1)
    network.wait(30)
    assert network.got["ben"] == []
    assert ben.drops["stale_session"] > 0
    assert ben.stats()["unproven"] == 0
    assert ben.deadline is None


def test_a_datagram_sent_from_another_address_is_refused(network: Any, credentials: Credentials) -> None:
    """Eve would pass for ana by sending on what ana has sealed, and get ana's answers."""
    network.start("ana", credentials("ana"))
    ben = network.start("ben", credentials("ben"))
    network.say("ana", "ben", FRAME)
    fresh = network.sealers["ana"].seal(b"believe me, I am ana" * 4, "")
    network.inject("eve", "ben", fresh)
    network.wait(30)
    assert [wire for wire, _ in network.got["ben"]] == [FRAME]
    assert ben.drops["forged"] + ben.drops["stale_session"] == 1
    network.inject("ana", "ben", fresh)
    assert len(network.got["ben"]) == 2, "and ana's own datagram still counts: the forger has not used up its number"


def test_a_proof_passed_on_by_another_proves_nothing_for_its_address(network: Any, credentials: Credentials) -> None:
    """Somebody in between, without any credential, would have its own address believed."""
    ana, ben = network.start("ana", credentials("ana")), network.start("ben", credentials("ben"))
    got = ben.open(network.now, Address("mallory"), ana.seal(FRAME, ""))
    for _ in range(10):
        for _, datagram in ben.outgoing():
            ana.open(network.now, Address("mallory"), datagram)
        for _, datagram in ana.outgoing():
            got += ben.open(network.now, Address("mallory"), datagram)
    assert got == []
    assert ben.drops["forged"] + ana.drops["forged"] > 0
    assert ben.stats()["sessions"] == ana.stats()["sessions"] == 0


@pytest.mark.parametrize("place", [0, 1, 2, 3, 4, 11, 12, 27, 28, 35, 36, 60, -1])
def test_a_changed_bit_anywhere_is_refused(network: Any, credentials: Credentials, place: int) -> None:
    """Who cannot read could still change."""
    network.start("ana", credentials("ana"))
    ben = network.start("ben", credentials("ben"))
    network.say("ana", "ben", FRAME)
    changed = bytearray(network.sealers["ana"].seal(FRAME, ""))
    changed[place] ^= 0x04
    network.inject("ana", "ben", bytes(changed))
    network.wait(30)
    assert len(network.got["ben"]) == 1
    assert sum(ben.drops.values()) >= 1
    network.say("ana", "ben", FRAME)
    assert len(network.got["ben"]) == 2, "whoever is lied about is not disturbed"


def test_a_shortened_datagram_is_refused(network: Any, credentials: Credentials) -> None:
    """A cut datagram would be half a frame, or an IndexError in the event loop."""
    network.start("ana", credentials("ana"))
    ben = network.start("ben", credentials("ben"))
    network.say("ana", "ben", FRAME)
    whole = network.sealers["ana"].seal(FRAME, "")
    for size in range(len(whole)):
        network.inject("ana", "ben", whole[:size])
    malformed = ben.drops["malformed"]
    network.inject("ana", "ben", whole + b"x" * FRAME_LIMIT)
    assert ben.drops["malformed"] == malformed + 1, "one that is too long costs no try of the cipher"
    assert len(network.got["ben"]) == 1
    assert sum(ben.drops.values()) == len(whole) + 1
    assert set(ben.drops) == {"no_key", "malformed", "forged"}


def test_a_made_up_datagram_with_a_trusted_session_is_refused(network: Any, credentials: Credentials) -> None:
    """The session id is on the wire for everyone to copy; it must not be worth anything."""
    network.start("ana", credentials("ana"))
    ben = network.start("ben", credentials("ben"))
    sealed = network.say("ana", "ben", FRAME)
    for number in (1, 2, 1 << 40, (1 << 64) - 1):
        network.inject("ana", "ben", sealed[:28] + number.to_bytes(8, "big") + b"whatever eve likes" * 3)
    assert len(network.got["ben"]) == 1
    assert ben.drops["forged"] + ben.drops["replayed"] == 4
    network.say("ana", "ben", FRAME)
    assert len(network.got["ben"]) == 2, "a made-up number has not moved the window"


def test_what_is_lost_of_the_proof_is_asked_again(network: Any, credentials: Credentials) -> None:
    """One lost datagram at the wrong moment would keep two nodes apart."""
    for lost in range(8):
        network.start("ana", credentials("ana")), network.start("ben", credentials("ben"))
        network.got.clear()
        count = iter(range(10_000))
        network.loses = lambda *_, count=count, lost=lost: next(count) == lost
        network.say("ana", "ben", FRAME + b"." * 100)
        for _ in range(4):
            network.wait(1)
            network.say("ana", "ben", FRAME)
        # The first frame was lost itself, or what came of it; in the end everything sent since is there.
        assert len(network.got["ben"]) >= 4, lost
        assert network.sealers["ben"].stats()["unproven"] == 0


def test_half_of_everything_may_be_lost(network: Any, credentials: Credentials) -> None:
    """On a bad radio link nobody would ever be let in."""
    network.start("ana", credentials("ana")), network.start("ben", credentials("ben"))
    count = iter(range(1_000_000))
    network.loses = lambda *_: next(count) * 2_654_435_761 % 97 < 48
    for _ in range(60):
        network.say("ana", "ben", FRAME)
        network.say("ben", "ana", FRAME)
        network.wait(0.5)
    assert len(network.got["ben"]) > 10
    assert len(network.got["ana"]) > 10


def test_a_node_that_starts_anew_is_a_new_session_and_the_old_one_is_over(network: Any, credentials: Credentials) -> None:
    """After a restart a node would be taken for a forger, or its old datagrams for its own."""
    old = network.start("ana", credentials("ana"))
    ben = network.start("ben", credentials("ben"))
    network.say("ana", "ben", FRAME)
    held_back = old.seal(b"from before the crash" * 4, "")
    network.start("ana", credentials("ana"))
    network.say("ana", "ben", b"I am back" * 8)
    assert [wire for wire, _ in network.got["ben"]] == [FRAME, b"I am back" * 8]
    network.inject("ana", "ben", held_back)
    network.wait(30)
    assert len(network.got["ben"]) == 2
    assert ben.drops["stale_session"] == 1
    assert ben.stats()["sessions"] == 1


def test_a_dozen_nodes_meet_all_at_once(network: Any, credentials: Credentials) -> None:
    """Bounds against strangers would keep friends out."""
    names = [f"n{number}" for number in range(12)]
    for name in names:
        network.start(name, credentials(name))
    for name in names:
        sealed = network.sealers[name].seal(FRAME + name.encode(), "")
        for other in names:
            if other != name:
                network._carry(name, other, sealed)
    network.settle()
    for name in names:
        assert sorted(network.got[name]) == sorted((FRAME + other.encode(), "") for other in names if other != name)
        assert network.sealers[name].stats()["sessions"] == 11


# -- groups that have a key of their own -----------------------------------------------------------------------------------------


def test_a_group_with_a_key_is_shared_by_those_who_hold_it(network: Any, credentials: Credentials) -> None:
    """The group's own members would be shut out."""
    for name in ("ana", "ben"):
        network.start(name, credentials(name), {"trip": GROUP_KEY})
    assert network.sealers["ana"].realm_of("trip#00000000000000aa") == "trip"
    assert network.sealers["ana"].realm_of("work#00000000000000aa") == network.sealers["ana"].realm_of(None) == ""
    network.say("ana", "ben", FRAME, "trip")
    network.say("ana", "ben", FRAME)
    network.say("ben", "ana", FRAME, "trip")
    assert network.got["ben"] == [(FRAME, "trip"), (FRAME, "")]
    assert network.got["ana"] == [(FRAME, "trip")]


def test_a_node_without_the_groups_key_neither_reads_nor_sends_there(network: Any, credentials: Credentials) -> None:
    """Everybody who may use the network would be in every group."""
    ana = network.start("ana", credentials("ana"), {"trip": GROUP_KEY})
    eve = network.start("eve", credentials("eve"), {"other": PreSharedKey("another group's: 0a1b2c3d4e")})
    network.say("eve", "ana", FRAME)
    network.say("ana", "eve", FRAME, "trip")
    network.say("eve", "ana", FRAME, "other")
    assert network.got["eve"] == []
    assert network.got["ana"] == [(FRAME, "")]
    assert eve.drops["wrong_key"] == ana.drops["wrong_key"] == 1
    with pytest.raises(InvalidOption, match="no key"):
        eve.seal(FRAME, "trip")


def test_one_secret_for_two_groups_makes_two_realms(network: Any, credentials: Credentials) -> None:
    """Frames of one group could be played into the other."""
    network.start("ana", credentials("ana"), {"trip": GROUP_KEY})
    ben = network.start("ben", credentials("ben"), {"work": GROUP_KEY})
    network.say("ana", "ben", FRAME, "trip")
    assert network.got["ben"] == []
    assert ben.drops == {"wrong_key": 1}


def test_the_groups_key_alone_is_not_enough(network: Any, credentials: Credentials, other_authority: Any) -> None:
    """Who has left the company but kept a group's key would still be in the group."""
    network.start("ana", credentials("ana"), {"trip": GROUP_KEY})
    for outsider in (None, PreSharedKey("of another company: 99aa88bb77"), other_authority.issue("eve")):
        eve = network.start("eve", outsider, {"trip": GROUP_KEY})
        network.say("eve", "ana", FRAME, "trip")
        network.say("ana", "eve", FRAME, "trip")
        network.wait(30)
        assert network.got["ana"] == network.got["eve"] == []
        assert sum(eve.drops.values()) > 0
    assert sum(network.sealers["ana"].drops.values()) >= 3


def test_a_session_proven_for_the_node_is_not_proven_for_the_group(network: Any, credentials: Credentials) -> None:
    """Somebody inside, without the group's key, could bring a recorded session of a member back to life by proving it for the node."""
    for name in ("ana", "ben"):
        network.start(name, credentials(name), {"trip": GROUP_KEY})
    network.say("ana", "ben", FRAME)
    assert network.sealers["ben"].stats()["sessions"] == 1
    network.loses = lambda source, to, datagram: source == "ben"
    network.say("ana", "ben", FRAME, "trip")
    network.wait(30)
    assert network.got["ben"] == [(FRAME, "")]
    assert network.sealers["ben"].drops["stale_session"] == 1


def test_a_restart_ends_the_old_session_in_every_realm(network: Any, credentials: Credentials) -> None:
    """A group's frames from before the crash would be believed until the first one after it."""
    for name in ("ana", "ben"):
        network.start(name, credentials(name), {"trip": GROUP_KEY})
    old = network.sealers["ana"]
    network.say("ana", "ben", FRAME)
    network.say("ana", "ben", FRAME, "trip")
    held_back = old.seal(FRAME, "trip")
    network.start("ana", credentials("ana"), {"trip": GROUP_KEY})
    network.say("ana", "ben", FRAME)
    assert len(network.got["ben"]) == 3
    network.inject("ana", "ben", held_back)
    network.wait(30)
    assert len(network.got["ben"]) == 3
    assert network.sealers["ben"].drops["stale_session"] == 1


def test_without_credentials_only_groups_with_a_key_are_sealed(network: Any) -> None:
    """Who only wants one group guarded would have to guard everything, or get nothing."""
    ana = network.start("ana", None, {"trip": GROUP_KEY})
    ben = network.start("ben", None, {"trip": GROUP_KEY})
    assert ana.seal(FRAME, "") == FRAME
    network.say("ana", "ben", FRAME)
    network.say("ana", "ben", FRAME, "trip")
    assert network.got["ben"] == [(FRAME, ""), (FRAME, "trip")]
    network.inject("eve", "ben", b"\xc1 sealed, but by no version that is known")
    assert ben.drops == {"malformed": 1}


def test_keys_and_credentials_of_the_wrong_kind_are_refused_with_what_to_give() -> None:
    """A secret given as plain text would be used as something else, or fail far from here."""
    for credentials, keys in (("secret", {}), (None, {"trip": "secret"}), (None, {"": GROUP_KEY})):
        with pytest.raises(InvalidOption, match="PreSharedKey"):
            Sealer(credentials, keys, address=Address("here"), now=0.0)  # type: ignore[arg-type]
