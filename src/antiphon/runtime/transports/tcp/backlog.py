"""What is kept, in all, for peers that do not take it.

A link may keep `_LINK_BYTES`: above what a sender may have unacknowledged (`window_bytes`), so that a peer that takes nothing fills the
sender's window first. All links together keep `_ALL_BYTES`, because whoever can send frames can have answers sent to as many
addresses as it likes: with many links behind, each may keep its share.
"""

from __future__ import annotations

_LINK_BYTES = 64 << 20
_ALL_BYTES = 256 << 20


class Backlog:
    __slots__ = ("links",)

    def __init__(self) -> None:
        self.links = 0
        """How many keep something."""

    @property
    def share(self) -> int:
        """How much each of them may keep."""
        return min(_LINK_BYTES, _ALL_BYTES // max(self.links, 1))
