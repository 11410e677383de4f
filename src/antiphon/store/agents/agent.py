"""What an agent is: a name, the topic it reads, its function, and the topics it publishes to.

The function is given a `Value` (its `data` is of the topic's type) and the state, and returns the new state and what is to be published:
`(topic, value)` or `(topic, value, key)`. It may be a coroutine function; then it has `timeout_s`. One that is not is called in the event
loop, and must be quick. It may be called several times for one value (after a crash, or after it raised), but of one call only, the last
one, anything is ever seen: state and publications are exactly once. What it does beside that is not.

**When it raises**, also by saying what cannot be published, it is called again, `attempts` times in all, with the state as it was. Then the
value goes, as it is, to the topic `<agent>/failed`, with its number and the error as the key; the state stays as it was, and the agent
goes on. So one bad value does not stop an emergency line, and is not lost: publish it again when the function is mended.

**What is gone.** Values that were collected or erased before the agent read them, because its lease is over or their publisher took them
back, are counted, logged, and given to `gap` where there is such a function, which is otherwise like the first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from antiphon.errors import InvalidOption
from antiphon.model.payload import codec_for
from antiphon.store.records import Start, checked_lease, checked_name

Outcome: TypeAlias = tuple[Any, Iterable[tuple[str, Any] | tuple[str, Any, str]]]
"""The new state, and what is to be published where."""
Function: TypeAlias = Callable[[Any, Any], Outcome | Awaitable[Outcome]]

LEASE_S = 7 * 86_400.0
_LONGEST_S = 86_400.0


class AgentStats(Struct):
    """What this process has done as the agent."""

    steps: int = 0
    values: int = 0
    published: int = 0
    failed: int = 0
    """Values that went to the topic of failures."""
    retries: int = 0
    missed: int = 0
    """Numbers that were gone before the agent read them."""
    taken: int = 0
    """How often this process began to run the agent."""
    fenced: int = 0
    """How often another came in its place."""


class Agent:
    def __init__(
        self,
        name: str,
        topic: str,
        function: Function,
        outputs: Iterable[str] | Mapping[str, Any] = (),
        *,
        type: Any = None,
        state: Any = b"",
        state_type: Any = None,
        lease: float = LEASE_S,
        start: Start = "earliest",
        gap: Function | None = None,
        timeout_s: float = 30.0,
        attempts: int = 3,
        silence_s: float = 10.0,
    ) -> None:
        """`outputs` are the topics it may publish to, or their types by name. `type` is that of the topic it reads; `state` the first
        state, of `state_type` (where that is left out: of its own type). A node that runs the agent and is silent for `silence_s` of the
        store's time loses it to another. An agent is known by its name: the same one in every process that may run it."""
        self.name, self.topic = checked_name(name, "agent"), checked_name(topic)
        self.failures = checked_name(f"{name}/failed")
        self.function, self.gap = function, gap
        for called in (function, *(() if gap is None else (gap,))):
            if not callable(called):
                raise InvalidOption("function", called, "give a function of a value and a state")
        kinds = outputs if isinstance(outputs, Mapping) else dict.fromkeys(_names(outputs))
        self.codec_by_output = {checked_name(output): codec_for(kind, "topic") for output, kind in kinds.items()}
        if self.topic in self.codec_by_output or self.failures in {self.topic, *self.codec_by_output}:
            raise InvalidOption(
                "outputs", sorted(kinds), f"an agent does not publish to what it reads, and {self.failures!r} is for failures"
            )
        self.codec = codec_for(type, "topic")
        self.state = state
        self.state_codec = codec_for(state.__class__ if state_type is None else state_type, "agent's state")
        self.encode_state(state)
        self.lease, self.start = checked_lease(lease), start
        for option, seconds in (("timeout_s", timeout_s), ("silence_s", silence_s)):
            if not 0 < seconds <= _LONGEST_S:
                raise InvalidOption(option, seconds, f"give a number of seconds above 0 and up to {_LONGEST_S:.0f}")
        if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
            raise InvalidOption("attempts", attempts, "say how often a function that raises is called, 1 or more")
        self.timeout_s, self.attempts, self.silence_s = timeout_s, attempts, silence_s
        self.stats = AgentStats()

    @property
    def subscriber(self) -> str:
        """The id under which it is subscribed to its topic."""
        return f"agent/{self.name}"

    def encode_state(self, state: Any) -> bytes:
        if self.state_codec is not None:
            return self.state_codec.encode(state)
        if not isinstance(state, bytes):
            raise InvalidOption(
                "state", state.__class__.__name__, "this agent's state is bytes: give it another first state, or a state_type"
            )
        return state

    def decode_state(self, data: bytes) -> Any:
        return data if self.state_codec is None else self.state_codec.decode(data)

    def __repr__(self) -> str:
        return f"<agent {self.name}: {self.topic} → {', '.join(self.codec_by_output) or 'nothing'}>"


def _names(outputs: Iterable[str]) -> list[str]:
    if isinstance(outputs, str):
        raise InvalidOption("outputs", outputs, "give a list of topics, also of one")
    return list(outputs)
