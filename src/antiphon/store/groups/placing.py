"""Views in a group's topic: placed by whoever changed the record, or by whoever comes and does not find them there."""

from __future__ import annotations

from antiphon.errors import Fenced
from antiphon.model.ids import GroupId, MemberId
from antiphon.store.contract import Backend
from antiphon.store.groups import values
from antiphon.store.groups.record import GroupRecord
from antiphon.store.groups.values import Placed
from antiphon.store.records import Entry, Grant, TopicOptions


def topic_of(group: GroupId) -> str:
    """The topic of a group that is on the store."""
    return f"group/{group}"


class Placer:
    def __init__(self, backend: Backend, me: MemberId) -> None:
        self._backend, self._me = backend, me
        self._grant: Grant | None = None
        self._number = 0
        self.seen = 0
        """The newest epoch whose view this member has read in the topic."""

    async def register(self, topic: str, options: TopicOptions | None) -> None:
        self._grant = await self._backend.register(topic, self._me, options=options)
        self._number = max(self._number, self._grant.number)

    async def place(self, record: GroupRecord) -> None:
        """Writes the view into the topic. That it is there already does no harm: who reads takes the first."""
        assert self._grant is not None, "a member registers before it comes in"
        entry = Entry(values.encode(Placed.of(record)))
        self._number += 1
        try:
            await self._backend.publish(self._grant, self._number, [entry])
        except Fenced:
            # Nobody else has this member's id: the store has forgotten the grant. The numbers go on.
            await self.register(self._grant.topic, None)
            self._number += 1
            await self._backend.publish(self._grant, self._number, [entry])

    async def place_if_unread(self, record: GroupRecord) -> None:
        """Before a record is changed: its view must be in the topic. Who has read it has seen it there."""
        if not record.readers and self.seen < record.epoch:
            await self.place(record)
