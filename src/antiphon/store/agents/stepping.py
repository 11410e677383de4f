"""The subscription of an agent: position and state are written together with what follows from them.

On a store with transactions a step is one. On another the record with the position and the decision comes first, by compare-and-set, and
then what was decided is published; whoever comes back to the record publishes it again (`finish`), and nothing is there twice. In this
order, because a function may say something else when it is asked again: publishing first, a crash in between would leave the cops with the
first answer and the ambulance with the second.

Costs one write per step where steps are transactions, else one and one per topic that is published to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from antiphon.errors import BadStore, Conflict, Fenced
from antiphon.store.agents.deciding import Decided, Decision, Planned
from antiphon.store.agents.patience import persist
from antiphon.store.continuation import look
from antiphon.store.contract import Backend
from antiphon.store.records import Entry, Grant, Publication, Subscriber
from antiphon.store.subscription import Subscription

if TYPE_CHECKING:
    from antiphon.store.store import Store

_ATTEMPTS = 8


class Stepping(Subscription):
    def __init__(self, store: Store, record: Subscriber, grants: Mapping[str, Grant]) -> None:
        """`grants` by topic: more may come into it."""
        super().__init__(store, record, None)
        self._grants = grants

    def decision(self, first: bytes) -> Decision:
        """As it was left; before the first step it is the first state and no plan."""
        if not self.state:
            return Decision(first)
        try:
            return msgspec.msgpack.decode(self.state, type=Decision)
        except msgspec.MsgspecError as error:
            raise BadStore(self._reach.url, f"the state of {self.id!r} of {self.topic!r} is nothing an agent writes ({error})") from None

    async def finish(self, plan: Sequence[Planned]) -> None:
        """Publishes what was decided, in so far as it is not there yet."""
        backend = self._reach.backend
        for publication in publications(plan, self._grants, backend):
            await persist(self._reach, lambda: backend.publish(*publication))  # noqa: B023

    async def step(self, decided: Decided) -> None:
        """The step happens, or this one is fenced."""
        backend, decision = self._reach.backend, decided.decision
        if backend.atomic_steps:
            at_once = publications(decision.plan, self._grants, backend)
            await self._write(decided.position, Decision(decision.state), at_once)
        else:
            await self._write(decided.position, decision, [])
            await self.finish(decision.plan)
        # Not before it is written: until then whoever comes in this one's place would have to read it again.
        self._prefetch.done(self.position)
        self._succession.forget(self.position)

    async def _write(self, position: int, decision: Decision, at_once: list[Publication]) -> None:
        continuation, reach = self._continuation, self._reach
        backend = reach.backend
        continuation.advance(position, msgspec.msgpack.encode(decision), self._prefetch.place_of(position))
        target = continuation.wanted
        try:
            for _ in range(_ATTEMPTS):
                try:
                    written = await persist(reach, lambda: backend.step(target, at_once))  # noqa: B023
                except Conflict:
                    there = await persist(reach, lambda: look(reach, target.topic, target.id))  # noqa: B023
                    continuation.judge(there)
                    continuation.check()
                    assert there is not None, "a subscriber that is gone fences its holder"
                    if structs.replace(there, revision=0) != structs.replace(target, revision=0):
                        target = structs.replace(target, revision=there.revision)  # a lease was renewed elsewhere, say
                        continue
                    written = there  # the answer was lost
                continuation.record = continuation.wanted = written
                return
        except Fenced as error:
            await self._prefetch.close(error)
            raise
        raise Conflict(f"the subscriber {target.id!r} of {target.topic!r}")


def publications(plan: Sequence[Planned], grants: Mapping[str, Grant], backend: Backend) -> list[Publication]:
    """A plan in batches that the store takes, in order."""
    found: list[Publication] = []
    for planned in plan:
        grant, first, size = grants[planned.topic], planned.first, 0
        batch: list[Entry] = []
        for entry in planned.entries:
            weight = len(entry.data) + len(entry.key)
            if batch and (len(batch) >= backend.batch_values or size + weight > backend.batch_bytes):
                found.append(Publication(grant, first, batch))
                batch, first, size = [], first + len(batch), 0
            batch.append(entry)
            size += weight
        if batch:
            found.append(Publication(grant, first, batch))
    return found
