"""What a step is to do: the function is asked, and what it says is checked and encoded. Nothing is written here.

A decision takes as many values as are there, but no more than a step should have: it ends after `SLICE_S` of asking (so that the node's
other work, and its sign of life, go on), or with so many publications. What one value leads to is never split.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from antiphon.errors import InvalidOption, TooLarge, UsageError
from antiphon.model.payload import BadPayload
from antiphon.store.agents.agent import Agent, Function
from antiphon.store.records import KEY_BYTES, Entry, Gap, TopicOptions, Value, check_keys
from antiphon.store.succession import Item

SLICE_S = 0.05
_PUBLICATIONS = 512
_BYTES = 512 << 10
_LARGEST = 4 << 20
_MOST = 10_000
"""Bytes and publications that one value may lead to."""
_ENTRY_BYTES = 16
_PAUSE_S = 0.05
_NUMBER_BITS = 20

log = logging.getLogger("antiphon.store")


class Planned(Struct, frozen=True, array_like=True):
    """Publications to one topic: entry k has the agent's own number `first + k` there."""

    topic: str
    first: int
    entries: list[Entry]


class Decision(Struct, frozen=True, array_like=True):
    """The state after a step, and what is to be published."""

    state: bytes
    plan: list[Planned] = []


class Decided(Struct, frozen=True):
    position: int
    decision: Decision
    values: int
    """How many values it is made of."""


def bound(position: int) -> int:
    """All own numbers that follow from the values up to here lie below it: those of a step begin with the number of its first value,
    shifted by so many bits that a value's publications have room."""
    return (position + 1) << _NUMBER_BITS


class Deciding:
    """Asks one agent's function, value by value, with the state as it was left by the one before."""

    def __init__(
        self, agent: Agent, state: bytes, *, value_bytes: int, state_bytes: int, options: Mapping[str, TopicOptions] | None = None
    ) -> None:
        """`options` says what the agent's output topics are, by name."""
        self._agent, self._state, self._options = agent, state, options or {}
        self._value_bytes, self._state_bytes = value_bytes, state_bytes

    async def decide(self, items: Sequence[Item]) -> Decided:
        """A step for some of the items from the first on, at least one."""
        clock = asyncio.get_running_loop().time
        until = clock() + SLICE_S
        said: dict[str, list[Entry]] = {}
        first = items[0].seq if isinstance(items[0], Value) else items[0].first
        position = size = count = values = 0
        for item in items:
            state, entries = await self._outcome(item)
            for topic, entry in entries:
                said.setdefault(topic, []).append(entry)
                size += _weight(entry)
            self._state = state
            position = item.seq if isinstance(item, Value) else item.last
            count, values = count + len(entries), values + isinstance(item, Value)
            if clock() >= until or count >= _PUBLICATIONS or size >= _BYTES:
                break
        plan = [Planned(topic, first << _NUMBER_BITS, entries) for topic, entries in said.items()]
        return Decided(position, Decision(self._state, plan), values)

    async def _outcome(self, item: Item) -> tuple[bytes, list[tuple[str, Entry]]]:
        agent = self._agent
        function: Function | None = agent.function
        given: Any = item
        if isinstance(item, Gap):
            agent.stats.missed += item.last - item.first + 1
            log.warning(
                "the agent %s: the values %d … %d of %s were %s before it read them",
                agent.name,
                item.first,
                item.last,
                agent.topic,
                item.why,
            )
            function = agent.gap
        elif agent.codec is not None:
            given = structs.replace(item, data=agent.codec.decode(item.data))
        if function is None:
            return self._state, []
        if isinstance(given, Value) and isinstance(given.data, BadPayload):
            return self._failed(item, UsageError(f"not of the topic's type: {given.data.why}"))
        pause = _PAUSE_S
        for attempt in range(1, agent.attempts + 1):
            try:
                return await self._ask(function, given)
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                    raise
                if attempt == agent.attempts:
                    return self._failed(item, error)
                agent.stats.retries += 1
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)
        raise AssertionError("an agent has one attempt at least")

    async def _ask(self, function: Function, given: Any) -> tuple[bytes, list[tuple[str, Entry]]]:
        # Decoded anew each time: what a function does to its state before it raises is not seen.
        agent = self._agent
        outcome = function(given, agent.decode_state(self._state))
        if inspect.isawaitable(outcome):
            async with asyncio.timeout(agent.timeout_s):
                outcome = await outcome
        if not isinstance(outcome, tuple) or len(outcome) != 2:
            raise UsageError(f"the function of {agent.name!r} returns (state, publications), not {outcome!r:.80}")
        state, said = agent.encode_state(outcome[0]), list(self._entries(outcome[1]))
        size = sum(_weight(entry) for _, entry in said)
        if len(state) > self._state_bytes or size > _LARGEST or len(said) > _MOST:
            what = f"a state of up to {self._state_bytes:,} bytes and up to {_MOST:,} publications for a value"
            raise TooLarge(len(state) + size, self._state_bytes + _LARGEST, what, "publish less at once, or keep it elsewhere")
        return state, said

    def _entries(self, said: Any) -> Iterator[tuple[str, Entry]]:
        agent = self._agent
        for one in said:
            topic, value, key = one if len(one) == 3 else (*one, "")
            if topic not in agent.codec_by_output:
                raise InvalidOption(
                    "topic", topic, f"the agent {agent.name!r} publishes to {sorted(agent.codec_by_output)}: name it in outputs"
                )
            codec = agent.codec_by_output[topic]
            data = value if codec is None else codec.encode(value)
            if not isinstance(data, bytes):
                raise InvalidOption("value", type(value).__name__, f"{topic!r} carries bytes: give outputs its type")
            if len(data) > self._value_bytes:
                raise TooLarge(len(data), self._value_bytes, "a value in this store", "split it, or keep it elsewhere")
            if not isinstance(key, str) or len(key.encode()) > KEY_BYTES:
                raise InvalidOption("key", key, f"a key is text of at most {KEY_BYTES} bytes")
            if topic in self._options:
                check_keys(topic, self._options[topic], bool(key))
            yield topic, Entry(data, key)

    def _failed(self, item: Item, error: BaseException) -> tuple[bytes, list[tuple[str, Entry]]]:
        agent = self._agent
        agent.stats.failed += 1
        where = item.seq if isinstance(item, Value) else item.first
        why = _said_by(error)
        log.error("the agent %s could not do with %s of %s: %s; see the topic %s", agent.name, where, agent.topic, why, agent.failures)
        story = f"{where} {why}".encode("utf-8", "replace")[:KEY_BYTES].decode("utf-8", "ignore")
        return self._state, [(agent.failures, Entry(item.data if isinstance(item, Value) else b"", story))]


def _said_by(error: BaseException) -> str:
    """What the function raised; also an error that cannot say what it is must not end the agent."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def _is_cancelled() -> bool:
    """Whether it is this task that is to end: a function also raises CancelledError when something that it waited for was cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _weight(entry: Entry) -> int:
    return len(entry.data) + len(entry.key) + _ENTRY_BYTES
