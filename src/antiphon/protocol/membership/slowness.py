"""Members that hold the others up.

With the policy `block` senders wait for the slowest member, which is visible in `lag_by_member`. With `evict`, a member for which a sender
has waited for `slow_s` without any progress is put out of the view. It is told by the next beacon, comes back as a side of its own,
and catches up by synchronisation.
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
        self._waits_for: MemberId | None = None
        self._lag = 0
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
        waits = self._member.reading and not endpoint.context.flushing and endpoint.credit <= 0
        if waits and isinstance(endpoint.multicast, Reliable):
            who, lag = endpoint.multicast.stability.slowest()
            slowest = (who, lag) if lag > 0 and who != self._port.me else None
        if slowest is None or slowest[0] != self._waits_for or slowest[1] < self._lag:
            self._since = self._port.now
        self._waits_for, self._lag = (None, 0) if slowest is None else slowest
        if self._waits_for is not None and self._port.now - self._since >= self._port.options.slow_s:
            self._member.coordinator.too_slow(self._waits_for)
        self._look_later()
