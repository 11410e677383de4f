"""The orders side by side: one conversation, the same arrivals, what each order costs and what it breaks.

For every order a world runs the real protocols. Three things are the same in all of them, so that what differs is the order's
doing: the moments at which lines are due (exponential gaps, drawn once), who sends which message under which number
(`sim.replay`), and the fate of every frame (keyed draws, `sim.network`: the same message on the same link takes the same time, and
is lost in the same attempt). By default an answer that is due before its author has read the question is postponed, which
slows a fast conversation down, more in a slow order: `spoken_rate` says to what. With `unread="unlink"` all orders speak at full rate.

The settings suit the network (`settings_for`): with the defaults of a local network half of the messages would be asked for while
they are still on their way.

Cost: about 1 ms of real time per message and order at eight members and 10 messages/s. Everything drawn comes from `seed`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct

from antiphon.errors import InvalidOption
from antiphon.model.options import GroupOptions, Settings
from antiphon.protocol.registry import stages
from antiphon.sim import oracles
from antiphon.sim.conversation import Conversation
from antiphon.sim.holdback import HoldBack, hold_back
from antiphon.sim.network import NetworkModel, Uniform
from antiphon.sim.replay import Replay
from antiphon.sim.view_world import ViewWorld

ORDERS = ("unordered", "fifo", "causal", "total", "semantic")
MEMBERS_LIMIT = 64
PATIENCE_S = 600.0
"""How long, in virtual time, a world may take to say and deliver the rest after the last line was due."""

Progress: TypeAlias = Callable[[str, int, int], None]
"""Told (order, lines sent, lines in all), about twenty times per order."""


class OrderResult(Struct, frozen=True):
    """What one order did. `violations` counts, for every promise, how often it was broken; `promised` names those that this order
    gives, which must be 0. `postponed` lines were late by `postponed_mean_s`, so the group spoke `spoken_rate` lines per second;
    `unlinked` links were left out. `settled` is False when the world was still not done after `PATIENCE_S`; then nothing is promised."""

    order: str
    hold_back: HoldBack
    violations: dict[str, int]
    promised: tuple[str, ...]
    postponed: int
    postponed_mean_s: float
    unlinked: int
    spoken_rate: float
    frames: dict[str, int]
    settled: bool

    @property
    def broken(self) -> dict[str, int]:
        """The promises of this order that were broken, and how often; empty when all is well."""
        return {promise: count for promise, count in self.violations.items() if count and promise in self.promised}


class Comparison(Struct, frozen=True):
    """The results of all orders, and everything that is needed to get them again."""

    conversation: str
    messages: int
    links: int
    """How many (answer, answered) pairs there are; an answer to two messages has two."""
    members: int
    rate: float
    loss: float
    delay_s: tuple[float, float]
    multicast: str
    unread: str
    seed: int
    settings: Settings
    results: tuple[OrderResult, ...]

    def __getitem__(self, order: str) -> OrderResult:
        for result in self.results:
            if result.order == order:
                return result
        raise KeyError(f"{order} was not compared; there are {', '.join(result.order for result in self.results)}")

    @property
    def ok(self) -> bool:
        """Whether every order kept its own promises and came to an end."""
        return all(result.settled and not result.broken for result in self.results)

    def as_dict(self) -> dict[str, object]:
        """Plain values, as `--json` prints them."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        return plain


def settings_for(delay: tuple[float, float]) -> Settings:
    """Settings for a network in which a frame takes `delay[0] … delay[1]` seconds.

    A message that overtook another by less than the spread of the delays proves nothing, so a gap is asked for only after about
    the longest delay (`nack_s`), and so is a parent that has not come (`parent_s`: its answer was sent after it was read, so it
    cannot be later than that unless it was lost). Members that answer for an absent sender spread over the same time, or they
    would not hear each other in time (`repair_s`). Digests go out twice within it. The defaults of a local network are the floor.
    """
    longest, local = delay[1], Settings()
    return Settings(
        digest_s=max(longest / 2, local.digest_s),
        nack_s=max(longest, local.nack_s),
        nack_max_s=max(longest * 16, local.nack_max_s),
        repair_s=max(longest, local.repair_s),
        parent_s=max(longest, local.nack_s),
        # A batch of one: a line is a frame, so that its draws are its own even when two lines become sayable in one turn.
        batch_messages=1,
    )


def compare(
    conversation: Conversation,
    *,
    loss: float,
    rate: float,
    delay: tuple[float, float] = (0.02, 0.2),
    members: int = 8,
    seed: int = 1,
    limit: int | None = None,
    orders: Sequence[str] = ORDERS,
    multicast: str = "reliable",
    unread: str = "postpone",
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Replays the first `limit` lines at `rate` lines per second under each order. Every frame is lost with probability `loss`
    and takes `delay[0] … delay[1]` seconds, uniformly. `unread`: see `sim.replay`."""
    _check(loss, rate, delay, members, limit, orders)
    groups = [GroupOptions(order=order, multicast=multicast) for order in orders]
    for options in groups:
        stages(options)  # refuses what cannot work before anything runs
    if limit is not None:
        conversation = conversation.part(0, limit)
    settings = settings or settings_for(delay)
    network = NetworkModel(latency=Uniform(*delay), loss=loss, keyed=True)
    rng = random.Random(f"{seed}/gaps")
    due: list[float] = []
    for _ in conversation.lines:
        due.append((due[-1] if due else 0.0) + rng.expovariate(rate))
    names = tuple(f"m{place + 1}" for place in range(members))
    results = []
    for options in groups:
        world = ViewWorld(seed=seed, members=names, options=options, settings=settings, network=network)
        results.append(_run(world, conversation, due, unread, progress))
    return Comparison(
        conversation=conversation.name,
        messages=len(conversation.lines),
        links=sum(len(line.parents) for line in conversation.lines),
        members=members,
        rate=rate,
        loss=loss,
        delay_s=delay,
        multicast=multicast,
        unread=unread,
        seed=seed,
        settings=settings,
        results=tuple(results),
    )


def _run(world: ViewWorld, conversation: Conversation, due: Sequence[float], unread: str, progress: Progress | None) -> OrderResult:
    order, multicast = world.options.order, world.options.multicast
    replay = Replay(world, conversation, due, unread)
    for until in _stops(due):
        world.run_until(until)
        if progress is not None:
            progress(order, replay.sent, len(due))
        if until > due[-1] and not replay.left:
            break
    settled = not replay.left and world.settle(PATIENCE_S)
    if progress is not None:
        progress(order, replay.sent, len(due))
    frames: Counter[str] = Counter()
    for (_, _, kind), count in world.frames.items():
        frames[kind] += count
    late = replay.postponed_s
    return OrderResult(
        order=order,
        hold_back=hold_back(world.logs),
        violations={promise: len(found) for promise, found in oracles.check_all(world.logs, multicast).items()},
        promised=tuple(sorted(oracles.promised(order, multicast))),
        postponed=len(late),
        postponed_mean_s=sum(late) / len(late) if late else 0.0,
        unlinked=replay.unlinked,
        spoken_rate=replay.sent / replay.last_sent_at,
        frames=dict(sorted(frames.items())),
        settled=settled,
    )


def _stops(due: Sequence[float]) -> Iterator[float]:
    """When to look up: twenty times while lines are due, then every second until patience ends."""
    for place in range(1, 21):
        yield due[-1] * place / 20
    for second in range(1, int(PATIENCE_S) + 1):
        yield due[-1] + second


def _check(loss: float, rate: float, delay: tuple[float, float], members: int, limit: int | None, orders: Sequence[str]) -> None:
    if not 0.0 <= loss < 1.0:
        raise InvalidOption("loss", loss, "give the share of frames that are lost, from 0 up to but not including 1")
    if not 0.0 < rate < float("inf"):
        raise InvalidOption("rate", rate, "give the messages per second of the whole group, above 0")
    if not 0.0 <= delay[0] <= delay[1] < float("inf"):
        raise InvalidOption("delay", delay, "give the shortest and the longest delay in seconds, the shortest first")
    if not 2 <= members <= MEMBERS_LIMIT:
        raise InvalidOption("members", members, f"compare between 2 and {MEMBERS_LIMIT} members")
    if limit is not None and limit < 1:
        raise InvalidOption("limit", limit, "take at least one line, or leave the limit out to take all")
    if not orders or len(set(orders)) != len(orders):
        raise InvalidOption("orders", tuple(orders), "name at least one order, and each only once")
