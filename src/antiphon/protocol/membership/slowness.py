"""Members that hold the others up.

With the policy `block` senders wait for the slowest member, which is visible in `lag_by_member`. With `evict`, a member for which a sender
has waited for `slow_s` without any progress is put out of the view. It is told by the next beacon, comes back as a side of its own,
and catches up by synchronisation.

A sender waits while it has no credit, and also while it has a little but was refused and not told yet that it may go on: a member that
acknowledges something after it held a sender up, and then nothing more, leaves it in that state. Progress is measured by how far the member
has acknowledged, not by its lag: a sender that uses up credit as it comes keeps the lag of a slow reader constant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from antiphon.model.ids import MemberId
from antiphon.protocol.multicast.reliable import Reliable
from antiphon.protocol.timers import Timer

if TYPE_CHECKING:
    from antiphon.protocol.membership.membership import Membership

_LOOKS = 8


class Slowness:
    def __init__(self, member: Membership) -> None:
        self._member, self._port = member, member.port
        self._waits_for: tuple[MemberId, int] | None = None
        """The slowest member and how far it has acknowledged, at the last look."""
        self._since = 0.0
        self._timer: Timer | None = None

    def on_view(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._waits_for = None
        if self._port.options.slow == "evict":
            self._look_later()

    def _look_later(self) -> None:
        self._timer = self._port.call_in(self._port.options.slow_s / _LOOKS, self._look)

    def _look(self) -> None:
        endpoint = self._member.endpoint
        if endpoint is None or self._member.departed:
            return
        slowest: tuple[MemberId, int] | None = None
        # A member whose own application does not read waits for that, and for nobody else.
        waits = self._member.reading and not endpoint.context.flushing and endpoint.blocked
        if waits and isinstance(endpoint.multicast, Reliable):
            who, lag = endpoint.multicast.stability.slowest()
            slowest = (who, endpoint.cast - lag) if lag > 0 and who != self._port.me else None
        if slowest is None or slowest != self._waits_for:
            self._since = self._port.now
        elif self._port.now - self._since >= self._port.options.slow_s:
            self._member.coordinator.too_slow(slowest[0])
        self._waits_for = slowest
        self._look_later()
