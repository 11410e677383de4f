"""A group on its way in: what the user wants of it, until it is known which group it is.

A group that this node has heard of begins at once. Another is looked for first, by its name or at an address; then it begins when it is
found, or fails.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from antiphon.errors import AntiphonError
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
