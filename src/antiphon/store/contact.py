"""Contact with the store, as one group or one subscription has it: whether the store answers, and the events that say so.

Each part that calls the store (`reader`, `keeper`) reports its failures and answers under its own name. The contact is lost when one of
them has failed for `lost_s` without an answer in between, and restored when all of them have been answered again. So a single lost answer
is no event, and a store that can be read but not written is lost too: its members cannot beat.

Costs nothing while the store answers. Keeps one entry per part.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeAlias

from antiphon.errors import StoreUnreachable
from antiphon.model.events import StoreLost, StoreRestored

LOST_S = 1.0
EVENT_LIMIT = 64
"""Events that a listener may leave unread."""

log = logging.getLogger("antiphon.store")

ContactEvent: TypeAlias = StoreLost | StoreRestored


class StoreContact:
    def __init__(self, of: str, url: str, lost_s: float, changed: Callable[[ContactEvent], None]) -> None:
        """`of` names the group or subscription in the log. `changed` is called with each event."""
        self._of, self._url, self._lost_s, self._changed = of, url, lost_s, changed
        self._why_by_part: dict[str, str] = {}
        self._failing_since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.lost: StoreLost | None = None
        """The loss that lasts; None while the store answers."""
        self.losses = 0
        self.away_s = 0.0
        """How long the newest loss that is over lasted."""

    def failed(self, part: str, error: Exception) -> None:
        """Report that a call was not answered."""
        why = error.why if isinstance(error, StoreUnreachable) else str(error) or type(error).__name__
        if not self._why_by_part:
            loop = asyncio.get_running_loop()
            self._failing_since = loop.time()
            self._timer = loop.call_later(self._lost_s, self._lose)
        self._why_by_part[part] = why

    def answered(self, part: str) -> None:
        """Report that a call was answered."""
        if not self._why_by_part or self._why_by_part.pop(part, None) is None or self._why_by_part:
            return
        self.close()
        if self.lost is not None:
            self.lost = None
            self.away_s = asyncio.get_running_loop().time() - self._failing_since
            log.info("%s: the store %s answers again, after %.1f s", self._of, self._url, self.away_s)
            self._changed(StoreRestored(self.away_s))

    def _lose(self) -> None:
        self._timer = None
        why = next(iter(self._why_by_part.values()))
        self.lost = StoreLost(why)
        self.losses += 1
        log.warning("%s: the store %s does not answer: %s", self._of, self._url, why)
        self._changed(self.lost)

    def close(self) -> None:
        """Report nothing more of a failure that has just begun."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
