"""Running an agent: wait for it, take it, make steps, and wait again when another has come in this one's place.

Whoever takes an agent first registers as the publisher of its outputs, and then comes back as its subscriber; both raise an epoch. Whatever
the node that ran it before still does is refused from then on, be it a node that was frozen for an hour and knows of nothing:

- its decision, because the record has another revision;
- publishing what it had decided before, because its grants are of an earlier epoch. The one that took over has found the same decision,
  and publishes it under the same numbers.

Ends when it is cancelled or the store is closed; raises what cannot become better by waiting (TopicTaken: an output is another's).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from antiphon.errors import Fenced, InvalidOption, UsageError
from antiphon.model.payload import BadPayload
from antiphon.store.agents.agent import Agent
from antiphon.store.agents.deciding import Deciding, Planned, bound
from antiphon.store.agents.ownership import Ownership
from antiphon.store.agents.patience import persist
from antiphon.store.agents.stepping import Stepping
from antiphon.store.continuation import come
from antiphon.store.records import LEASE_LIMIT_S, Gap, Grant, TopicOptions
from antiphon.store.succession import Item

if TYPE_CHECKING:
    from antiphon.store.store import Store

_ITEMS = 256
"""Values that are taken at once, at most."""
_AGAIN_S = 0.2

log = logging.getLogger("antiphon.store")


class Running:
    def __init__(self, store: Store, agent: Agent) -> None:
        self._store, self._reach, self._agent = store, store.reach, agent
        self._ownership = Ownership(store.reach, agent.name, store.name or "", agent.silence_s)
        self._grants: dict[str, Grant] = {}

    async def forever(self) -> None:
        """Until it is cancelled, or the store is closed."""
        self._reach.check_open()
        try:
            while True:
                await self._ownership.take()
                self._agent.stats.taken += 1
                try:
                    await _first_of(self._work(), self._ownership.keep())
                    return  # the work ends when the store is closed
                except Fenced as error:
                    self._agent.stats.fenced += 1
                    log.info("the agent %s runs elsewhere now: %s", self._agent.name, error)
                await asyncio.sleep(_AGAIN_S * random.uniform(0.5, 1.0))
        except UsageError:
            if not self._reach.closing:
                raise
        finally:
            await asyncio.shield(self._ownership.release())

    async def _work(self) -> None:
        agent, backend = self._agent, self._reach.backend
        self._grants.clear()
        options = {}
        for output in agent.codec_by_output:
            await self._register(output)
            options[output] = (await persist(self._reach, lambda: backend.info(output))).options  # noqa: B023
        async with await self._come() as stepping:
            decision = stepping.decision(agent.encode_state(agent.state))
            if isinstance(state := agent.decode_state(decision.state), BadPayload):
                # Not a failure of the function: with a state that is wrong, every value would be put aside as one.
                raise UsageError(
                    f"the state of the agent {agent.name!r} is of another type: {state.why}. Give it that type, or another name"
                )
            await self._need(decision.plan, stepping.position)
            await stepping.finish(decision.plan)
            limit = self._store.settings.state_bytes
            deciding = Deciding(agent, decision.state, value_bytes=backend.value_bytes, state_bytes=limit, options=options)
            async for items in stepping.batches(_ITEMS):
                await self._steps(items, deciding, stepping)

    async def _steps(self, items: list[Item], deciding: Deciding, stepping: Stepping) -> None:
        stats = self._agent.stats
        while items:
            decided = await deciding.decide(items)
            plan = decided.decision.plan
            await self._need(plan, stepping.position)
            await stepping.step(decided)
            stats.steps += 1
            stats.values += decided.values
            stats.published += sum(len(planned.entries) for planned in plan)
            items = [item for item in items if (item.last if isinstance(item, Gap) else item.seq) > decided.position]
            await asyncio.sleep(0)

    async def _come(self) -> Stepping:
        agent, store = self._agent, self._store
        await persist(self._reach, lambda: store.seated(None))
        record = await persist(
            self._reach, lambda: come(self._reach, agent.topic, agent.subscriber, agent.lease, agent.lease, agent.start, None)
        )
        stepping = Stepping(store, record, self._grants)
        store.remember(stepping)
        return stepping

    async def _need(self, plan: Sequence[Planned], position: int) -> None:
        """The topic of failures is registered when there is a failure."""
        for planned in plan:
            if planned.topic not in self._grants:
                await self._register(planned.topic)
        for topic, grant in self._grants.items():
            if grant.number >= bound(position):
                # The store would take what follows for a repeat, and drop it in silence.
                raise UsageError(
                    f"the agent {self._agent.name!r} is done with {position} values of {self._agent.topic!r}, and {topic!r} has what "
                    "followed from later ones: it was unsubscribed, or attached to another topic. Give it another name"
                )

    async def _register(self, topic: str) -> None:
        agent, backend = self._agent, self._reach.backend
        options = TopicOptions(retention_s=LEASE_LIMIT_S) if topic == agent.failures else None
        try:
            self._grants[topic] = await persist(self._reach, lambda: backend.register(topic, agent.name, options=options))
        except InvalidOption:  # somebody has said already how long failures are kept
            self._grants[topic] = await persist(self._reach, lambda: backend.register(topic, agent.name))


async def _first_of(work: Coroutine[Any, Any, None], keep: Coroutine[Any, Any, None]) -> None:
    """Both at once until one ends; the other is cancelled then. Raises what ended it."""
    tasks = [asyncio.create_task(work, name="an agent's steps"), asyncio.create_task(keep, name="an agent's beat")]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError, Exception):
                await task
