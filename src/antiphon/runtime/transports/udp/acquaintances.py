"""Nodes met so far that a multicast does not reach: what is for everybody goes to them as well.

A node is met when something came from it *and* the core has sent to it: the core answers only what it accepts, so that a datagram under
an invented address does not make this node send there for ever. One that is ever heard through multicast is near, and needs no copy.

Keeps names only, bounded; the oldest is forgotten. Cost: one look-up per unicast.
"""

from __future__ import annotations

from antiphon.model.ids import Address

MET, HEARD = 512, 1_024
"""Nodes that are met, and nodes that have been heard."""


class Acquaintances:
    def __init__(self) -> None:
        self.met: dict[Address, None] = {}
        self._heard: dict[Address, None] = {}
        self._near: dict[Address, None] = {}

    def hear(self, source: Address) -> None:
        """Something came by unicast."""
        if source not in self._heard and source not in self._near:
            _note(self._heard, source, HEARD)

    def hear_by_multicast(self, source: Address) -> None:
        if source not in self._near:
            _note(self._near, source, HEARD)
            self._heard.pop(source, None)
            self.met.pop(source, None)

    def address(self, to: Address) -> None:
        """The core sends to this node alone."""
        if to in self._heard and to not in self.met:
            _note(self.met, to, MET)

    def forget_multicast(self) -> None:
        """Multicast has failed: who is near is not known any more."""
        for source in self._near:
            _note(self._heard, source, HEARD)
        self._near.clear()


def _note(names: dict[Address, None], name: Address, limit: int) -> None:
    names[name] = None
    if len(names) > limit:
        del names[next(iter(names))]
