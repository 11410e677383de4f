"""Frames and connections that were refused for want of the right credentials: how many, from where, and why.

A wrong key looks like a missing group: nothing that is sent is understood. These counts name the cause where the application sees it: in
the error of a join that failed, in the logs and in `node.stats()`. Keeps `PEERS_LIMIT` addresses; another takes the place of the one that
was refused longest ago, whose counts by cause remain.
"""

from __future__ import annotations

from collections import Counter

from antiphon.model.ids import Address

PEERS_LIMIT = 64
_PEERS_NAMED = 3
"""Peers that a sentence names; the stats have them all."""
SAYS: dict[str, str] = {
    "wrong_key": "sealed with another key: check that both nodes have the same credentials",
    "no_key": "not sealed, for that node has no credentials: give it the same as this one",
    "sealed": "sealed, and this node has no credentials: give it those of the other nodes",
    "expired_certificate": "from a certificate that is outside its dates: renew it",
    "untrusted_certificate": "from a certificate that no authority known here has signed: check the authority files of both nodes",
    "wrong_name": "from a certificate that is made out to another name: call the node as its certificate does",
    "refused_by_peer": "the other node's refusals of this one's certificate: check the authority file there",
    "tls": "TLS, and this node has no certificates: give it some of the same authority",
    "wrong_realm": "not sealed with the key that this node has for their group: give both nodes the same keys",
    "no_tls": "not TLS, for that node has no certificates: give it some of the same authority",
}
"""By cause, what was refused and what to do; after "3 frames from 10.0.0.7:4040 are"."""

OWN_LACK = frozenset(("sealed", "tls"))
"""Causes that lie with this node alone, because it has no credentials at all; they are the same for every peer."""


class Refusals:
    def __init__(self) -> None:
        self.by_cause: Counter[str] = Counter()
        self.by_peer: dict[Address, Counter[str]] = {}

    def note(self, peer: Address, cause: str) -> int:
        """Count one refusal; return how many of this cause there were of the peer."""
        self.by_cause[cause] += 1
        counts = self.by_peer.pop(peer, None)
        if counts is None:
            counts = Counter()
            if len(self.by_peer) >= PEERS_LIMIT:
                del self.by_peer[next(iter(self.by_peer))]
        self.by_peer[peer] = counts
        counts[cause] += 1
        return counts[cause]

    def explain(self) -> str:
        """Sentences that name the latest peers and what to do about them; empty if nothing was refused."""
        latest = [(peer, cause, count) for peer, counts in reversed(self.by_peer.items()) for cause, count in counts.items()]
        return "; ".join(sentence(*refused) for refused in latest[:_PEERS_NAMED])

    def stats(self) -> dict[str, object]:
        by_peer = {peer: dict(counts) for peer, counts in self.by_peer.items()}
        return {"refused": dict(sorted(self.by_cause.items())), "refused_by_peer": by_peer}


def sentence(peer: Address, cause: str, count: int) -> str:
    """What was refused of one peer, and what to do about it."""
    frames = f"{count:,} frames from {peer} are" if count > 1 else f"1 frame from {peer} is"
    return f"{frames} {SAYS.get(cause, cause)}"


def is_worth_a_word(count: int) -> bool:
    """Whether a peer is told of a refusal: of the first, the second, the fourth, and so on."""
    return count & (count - 1) == 0
