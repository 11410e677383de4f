"""The right to write to a topic: asked for when it is first needed, kept until it is given back or somebody else has it.

Whoever was fenced stays so until it registers anew, on purpose: else two programs that both believe to be the publisher would take the
topic from each other for ever.
"""

from __future__ import annotations

from antiphon.errors import Fenced
from antiphon.store.reach import Reach
from antiphon.store.records import Grant, TopicOptions


class Right:
    def __init__(self, reach: Reach, topic: str, publisher: str) -> None:
        self._reach, self._topic, self._publisher = reach, topic, publisher
        self.options: TopicOptions | None = None
        """What the topic was said to be."""
        self.known: TopicOptions | None = None
        """What the topic is, as the store has it; it never changes."""
        self.grant: Grant | None = None
        self._fenced: Fenced | None = None

    def check(self) -> None:
        """Raises Fenced if somebody else has come in this one's place."""
        if self._fenced is not None:
            raise Fenced(self._fenced.who, self._fenced.why)

    def fence(self, error: Fenced) -> Fenced:
        """The store has said that the grant is worth nothing."""
        self.grant, self._fenced = None, error
        self._reach.tally.fenced += 1
        return error

    async def granted(self, timeout: float) -> Grant:
        self.check()
        return self.grant or await self.register(self.options, False, timeout)

    async def register(self, options: TopicOptions | None, takeover: bool, timeout: float) -> Grant:
        """Asks for it anew, whatever it was before."""
        backend = self._reach.backend
        self.grant = None  # cancelled or not answered, it may have happened, and then the one before is worth nothing
        grant = await self._reach.insist(
            lambda: backend.register(self._topic, self._publisher, options=options, takeover=takeover), timeout
        )
        if self.known is None:
            self.known = options or (await self._reach.insist(lambda: backend.info(self._topic), timeout)).options
        self.grant, self._fenced = grant, None
        self.options = options or self.options
        return grant

    async def release(self, timeout: float) -> None:
        grant, self.grant, self._fenced = self.grant, None, None
        if grant is not None:
            await self._reach.insist(lambda: self._reach.backend.release(grant), timeout)
