"""An agent waits for its store as long as it takes: only closing the store, or cancelling, ends that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from antiphon.errors import StoreFull, StoreUnreachable
from antiphon.store.reach import Reach

T = TypeVar("T")

_ROOM_S = 1.0
log = logging.getLogger("antiphon.store")


async def persist(reach: Reach, ask: Callable[[], Coroutine[Any, Any, T]], wait_s: float = 0.0) -> T:
    """What `ask` returns or raises, once the store answers and has room. `wait_s` is how long the call itself waits. What is asked must be
    safe to repeat, as everything in the contract is."""
    while True:
        try:
            return await reach.insist(ask, wait_s + reach.settings.timeout_s)
        except StoreUnreachable:
            reach.check_open()
        except StoreFull as error:
            log.error("an agent waits for room: %s", error)
            await asyncio.sleep(_ROOM_S)
