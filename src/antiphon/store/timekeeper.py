"""The store's time as it is known here, so that a lease can be judged without asking for every value.

It is heard with every read. What was heard longer than `clock_s` ago is asked for again where that could make a difference: when the lease
of the value in question is over, or will be within a second. So a lease is never judged to be over too early, and too late by at most
`clock_s`. While the store is out of reach its time is taken to go on at the pace of this machine's steady clock. Wall clocks do not come
into it.
"""

from __future__ import annotations

import asyncio

from antiphon.errors import StoreUnreachable
from antiphon.store.ending import end
from antiphon.store.holdings import Holdings
from antiphon.store.reach import Reach
from antiphon.store.records import SECOND, Moment

_ASK_S = 1.0
_MARGIN_S = 1.0


class Timekeeper:
    def __init__(self, reach: Reach, holdings: Holdings) -> None:
        self._reach, self._holdings = reach, holdings
        self._heard: Moment = 0
        self._heard_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    def hear(self, moment: Moment) -> None:
        """The store has said that it is now this time."""
        if moment >= self._heard:
            self._heard, self._heard_at = moment, asyncio.get_running_loop().time()
            self._holdings.saw(moment)

    def knows(self, until: Moment) -> bool:
        """Whether it can be said without asking on which side of this moment the store's time is."""
        patience = self._reach.settings.clock_s
        passed = asyncio.get_running_loop().time() - self._heard_at
        if passed < patience:
            return True
        return bool(patience and self._heard) and self._heard + round((passed + _MARGIN_S) * SECOND) < until

    @property
    def now(self) -> Moment:
        """What time it is, as far as is known."""
        if not self._reach.trouble or not self._heard:
            return self._heard
        return self._heard + round((asyncio.get_running_loop().time() - self._heard_at) * SECOND)

    async def ask(self) -> None:
        """Hears the time anew, unless the store does not answer now. One question for all who wait; whoever is cancelled leaves it to the
        others, so that somebody who is always in a hurry hears the answer too."""
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._ask(), name=f"time of {self._reach.url}")
        await asyncio.shield(self._asking)

    async def _ask(self) -> None:
        reach = self._reach
        try:
            if not reach.trouble and not reach.closed:
                self.hear(await reach.insist(reach.backend.time, min(_ASK_S, reach.settings.timeout_s)))
        except StoreUnreachable:
            return
        finally:
            self._asking = None

    async def close(self) -> None:
        await end(self._asking)
