"""A group on its way in: what the user wants of it, until it is known which group it is.

A group that this node has heard of begins at once. Another is looked for first, by its name or at an address; then it begins when it is
found, or fails.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from antiphon.errors import AntiphonError, JoinFailed, TimedOut
from antiphon.model.control import Wants
from antiphon.model.ids import GroupId
from antiphon.model.payload import PayloadCodec

if TYPE_CHECKING:
    from antiphon.api.group import Group, State


class Entry:
    def __init__(self, codec: PayloadCodec | None, state: State | None, wants: Wants | None = None) -> None:
        self.codec, self.state, self.wants = codec, state, wants
        self.id: GroupId | None = None
        """The group, once it is known."""
        self.group: asyncio.Future[Group] = asyncio.get_running_loop().create_future()

    def fail(self, error: AntiphonError) -> None:
        if not self.group.done():
            self.group.set_exception(error)
            self.group.exception()  # who joins may have given up: nobody need hear of it


async def wait_for_state(group: Group, leave_s: float) -> None:
    """Wait until a newcomer has the state it wanted. If there is none, leave first, within `leave_s`, so that the caller may join again in
    another way. Raises JoinFailed."""
    try:
        await asyncio.shield(group.caught_up)
    except JoinFailed:
        with suppress(TimedOut):
            await group.leave(timeout=leave_s)
        raise


async def wait_for_stable_view(group: Group, timeout_s: float) -> None:
    """Wait until a view with this newcomer is stable, at most `timeout_s`; return silently after that. Raises JoinFailed if it departs.

    Under `partitions="majority"` this member counts for a majority only from then on: if another one died before, the group could stop."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await asyncio.shield(group.stable)
