"""Decide when a node repeats its advertisement without being asked to: a Trickle timer (RFC 6206).

Time is cut into intervals. In each the node picks a random moment of the second half and advertises then, unless it has heard meanwhile an
advertisement that says the same as its own would. Each interval is twice as long as the one before, up to `high_s`; `reset` goes back to
`low_s`, because something was heard that does not fit: an unknown node, or a group that is not known here.

Cost: a node that nobody hears sends one advertisement per `high_s`; so do n nodes that hear each other and know the same groups, all n
together; n nodes that know different groups send one each. `reset` adds about log2(high_s / low_s) of them, and at most one per `low_s / 2`
however often it is called.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from antiphon.protocol.timers import Timer


class AdvertisementTimer:
    def __init__(
        self,
        low_s: float,
        high_s: float,
        rng: random.Random,
        call_in: Callable[[float, Callable[[], None]], Timer],
        advertise: Callable[[], None],
    ) -> None:
        """Call `advertise` when it is time to; `call_in` sets a timer. Nothing happens before `start`."""
        self._low_s, self._high_s, self._rng = low_s, max(low_s, high_s), rng
        self._call_in, self._advertise = call_in, advertise
        self._interval_s = 0.0
        """Length of the current interval; 0 before `start`."""
        self._redundant = False
        """Whether the advertisement of this interval is not needed."""
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin with the shortest interval."""
        self._begin(self._low_s)

    def reset(self) -> None:
        """Begin again with the shortest interval, unless that is the current one."""
        if self._interval_s > self._low_s:
            self._begin(self._low_s)

    def hear_same(self) -> None:
        """Note that another node's advertisement says what this node's would: it need not be sent in this interval."""
        self._redundant = True

    def _begin(self, interval_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._interval_s, self._redundant = interval_s, False
        wait_s = self._rng.uniform(interval_s / 2, interval_s)
        self._timer = self._call_in(wait_s, lambda: self._fire(interval_s - wait_s))

    def _fire(self, rest_s: float) -> None:
        if not self._redundant:
            self._advertise()
        self._timer = self._call_in(rest_s, lambda: self._begin(min(2 * self._interval_s, self._high_s)))
