"""Reading an archive: each message once, in its order, from the beginning."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from antiphon.errors import StoreUnreachable, UnknownTopic
from antiphon.model.control import Holdings
from antiphon.model.events import Delivery
from antiphon.model.frames import Batch
from antiphon.model.ids import GroupId
from antiphon.store.contract import Backend
from antiphon.store.groups import values
from antiphon.store.groups.archived import Archived, topic_of
from antiphon.store.groups.values import Lost, Marker

_CHUNK = 1_024
_PAUSE_S = 0.25
_WAIT_S = 1.0


class Past:
    """Reads once, and knows afterwards what it has read."""

    def __init__(self, backend: Backend, group: GroupId) -> None:
        self._backend, self._topic = backend, topic_of(group)
        self.read = Archived()
        """What was read."""
        self.lost: Holdings = {}
        """What the archive says is lost."""
        self.retries = 0

    async def until(self, marked: Callable[[], bool] | None, timeout_s: float) -> AsyncIterator[Delivery]:
        """What lies before the marker with which `marked` becomes true, and which is waited for; raises TimeoutError when nothing comes
        for so long. Without it: what is there now."""
        clock = asyncio.get_running_loop().time
        until = clock() + timeout_s
        while True:
            try:
                reader = await self._backend.reader(self._topic, self.read.seq)
                try:
                    while True:
                        if marked is not None and marked():
                            return
                        chunk = await reader.take(_CHUNK, 0.0 if marked is None else max(0.0, min(until - clock(), _WAIT_S)))
                        for value in chunk.values:
                            content = values.decode(value.data)
                            if isinstance(content, Batch):
                                for low, high in self.read.missing(content.sender, content.first, content.last):
                                    yield content, low, high
                            elif isinstance(content, Lost):
                                self._lose(content)
                            self.read.seq = value.seq
                            self.read.add(content)
                            if isinstance(content, Marker) and marked is not None and marked():
                                return
                        if chunk.values:
                            until = clock() + timeout_s
                        elif marked is None:
                            return
                        elif clock() >= until:
                            raise TimeoutError
                finally:
                    await reader.close()
            except (StoreUnreachable, UnknownTopic) as error:
                if marked is None and isinstance(error, UnknownTopic):
                    return
                if clock() >= until:
                    raise TimeoutError from None
                self.retries += 1
                await asyncio.sleep(_PAUSE_S)

    def _lose(self, content: Lost) -> None:
        for sender, flat in content.lost.items():
            for low, high in zip(flat[::2], flat[1::2], strict=False):
                for missing in self.read.missing(sender, low, high):
                    self.lost.setdefault(sender, []).extend(missing)
