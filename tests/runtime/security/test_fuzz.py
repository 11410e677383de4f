"""Whatever comes, nothing raises, nothing is believed, nothing grows, and those who belong together still hear each other."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from antiphon.model.ids import Address
from antiphon.runtime.security import PreSharedKey, Sealer
from antiphon.runtime.security.candidate import CANDIDATES
from antiphon.runtime.security.introductions import HOSTED

FRAME = b"\x93 a frame of the protocol, as long as they usually are at the least"
KEYS = {"trip": PreSharedKey("the trip's own: 55c0a7d2e1")}


@given(st.lists(st.tuples(st.integers(0, 6), st.binary(max_size=200)), max_size=20))
def test_made_up_datagrams_do_not_raise(datagrams: list[tuple[int, bytes]]) -> None:
    """One crafted datagram would stop the event loop."""
    key = PreSharedKey("the nodes' own: 7b1e0f4a93")
    ben = Sealer(key, KEYS, address=Address("ben"), now=0.0)
    start = ben.seal(FRAME, "trip")
    for kind, rest in datagrams:
        for made_up in (rest, start[:3] + rest, start[:3] + bytes((kind,)) + start[4:12] + rest):
            assert ben.open(0.0, Address("eve"), made_up) == []
    # A notice of another key is no frame: it is counted as a refusal.
    notices = ben.refusals.by_cause["wrong_key"] - ben.drops["wrong_key"]
    assert sum(ben.drops.values()) + notices == 3 * len(datagrams)


def test_mutated_traffic_is_never_believed_and_never_disturbs(network: Any, credentials: Any) -> None:
    """A bit turned somewhere in the middle of a handshake would crash a node, or shut a good one out."""
    chance = random.Random(20_240)
    for name in ("ana", "ben"):
        network.start(name, credentials(name), KEYS)
    for realm in ("", "trip"):
        network.say("ana", "ben", FRAME, realm)
        network.say("ben", "ana", FRAME, realm)
    traffic = list(network.recorded)
    said = {name: list(network.got[name]) for name in ("ana", "ben")}
    for name in ("ana", "ben"):
        network.start(name, credentials(name), KEYS)
    network.got.clear()
    for _ in range(4_000):
        source, to, datagram = chance.choice(traffic)
        changed = bytearray(datagram)
        for _ in range(chance.randrange(3)):
            changed[chance.randrange(4 if chance.random() < 0.3 else len(changed))] = chance.randrange(256)
        if chance.random() < 0.2:
            # About the session that is there now, as somebody would who listens.
            changed[36:52] = network.sealers[to].session
        if chance.random() < 0.2:
            del changed[chance.randrange(len(changed)) :]
        network.inject(chance.choice((source, "eve")), to, bytes(changed))
        network.now += 0.002
        if chance.random() < 0.05:
            network.wait(0.3)
    assert network.got["ana"] == network.got["ben"] == []
    for name in ("ana", "ben"):
        stats = network.sealers[name].stats()
        assert int(str(stats["unproven"])) <= CANDIDATES
        assert int(str(stats["handshakes"])) <= HOSTED
    network.wait(30)
    for realm in ("", "trip"):
        network.say("ana", "ben", FRAME, realm)
        network.say("ben", "ana", FRAME, realm)
    network.wait(5)
    assert {name: sorted(network.got[name]) for name in ("ana", "ben")} == {name: sorted(frames) for name, frames in said.items()}
    network.wait(60)
    assert [network.sealers[name].stats()["unproven"] for name in ("ana", "ben")] == [0, 0]
