"""A grid of simulations: every combination of some parameters, with every seed; and one cell of it, simulated.

A cell is one conversation replayed by one group in virtual time (`sim.compare`): the real protocols, with the loss, the delays and the rate
that the cell says. The same cell gives the same result in every process on every machine, so a result that exists need not be computed
again; only `cpu_s`, what it cost, is the machine's.

    Grid(orders=("fifo", "total"), members=(4, 16), losses=(0.0, 0.05), seeds=range(25)).cells()     # 200 cells

Cost: 30 ms (4 members) to 600 ms (16 members, total order) of one core for a cell of 120 messages. This module needs no Spark.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import product

import msgspec
from msgspec import Struct

from antiphon.errors import InvalidOption
from antiphon.sim.compare import MEMBERS_LIMIT, OrderResult, compare
from antiphon.sim.conversation import Conversation, Line, shipped
from antiphon.sim.swarm import Case

CELLS_LIMIT = 1_000_000
MESSAGES_LIMIT = 1_000_000


class Cell(Struct, frozen=True, kw_only=True):
    """One simulation. `rate`: messages per second of the whole group; a frame takes `delay_low_s … delay_high_s`. `conversation` says what
    is said: the name and a digest, so that results of different conversations are never taken for each other's."""

    order: str
    multicast: str
    members: int
    rate: float
    loss: float
    delay_low_s: float
    delay_high_s: float
    messages: int
    conversation: str
    seed: int

    def __post_init__(self) -> None:
        Case(seed=self.seed, order=self.order, multicast=self.multicast)  # knows which go together, and says so
        if not 2 <= self.members <= MEMBERS_LIMIT:
            raise InvalidOption("members", self.members, f"choose 2 to {MEMBERS_LIMIT}")
        if not 0.0 <= self.loss < 1.0:
            raise InvalidOption("loss", self.loss, "give the share of frames that are lost, from 0 up to but not including 1")
        if not 0.0 < self.rate < float("inf"):
            raise InvalidOption("rate", self.rate, "give the messages per second of the whole group, above 0")
        if not 0.0 <= self.delay_low_s <= self.delay_high_s < float("inf"):
            raise InvalidOption(
                "delay", (self.delay_low_s, self.delay_high_s), "give the shortest and the longest delay, the shortest first"
            )
        if not 1 <= self.messages <= MESSAGES_LIMIT:
            raise InvalidOption("messages", self.messages, f"choose 1 to {MESSAGES_LIMIT:,}")

    @property
    def weight(self) -> float:
        """What it costs, compared to another cell: what is sent grows with the members, and so do those who get it."""
        return self.messages * self.members**2


class Result(Cell, frozen=True, kw_only=True):
    """What came of a cell. Hold-back is how long a message waits at a member that has it. `broken` counts violations of promises that the
    order gives; `error` says what was raised. `settled` is False when the group was not done after ten virtual minutes."""

    deliveries: int = 0
    held_share: float = 0.0
    hold_mean_s: float = 0.0
    hold_p50_s: float = 0.0
    hold_p99_s: float = 0.0
    hold_max_s: float = 0.0
    end_to_end_mean_s: float = 0.0
    spoken_rate: float = 0.0
    frames: int = 0
    data_frames: int = 0
    broken: int = 0
    settled: bool = False
    error: str = ""
    cpu_s: float = 0.0


class Grid(Struct, frozen=True, kw_only=True):
    """Every combination of these. A network is a shortest and a longest delay."""

    orders: Sequence[str] = ("fifo", "causal", "total", "semantic")
    multicasts: Sequence[str] = ("reliable",)
    members: Sequence[int] = (4, 8)
    rates: Sequence[float] = (10.0,)
    losses: Sequence[float] = (0.0, 0.02)
    delays_s: Sequence[tuple[float, float]] = ((0.02, 0.2),)
    messages: Sequence[int] = (120,)
    seeds: Sequence[int] = range(10)

    def cells(self, conversation: Conversation | None = None) -> list[Cell]:
        """The cells, each once. Refuses what cannot be simulated before anything is."""
        axes = (self.orders, self.multicasts, self.members, self.rates, self.losses, self.delays_s, self.messages, self.seeds)
        size = 1
        for axis in axes:
            size *= len(axis)
        if not 0 < size <= CELLS_LIMIT:
            raise InvalidOption(
                "grid", f"{size:,} cells", f"give each parameter a value, and together at most {CELLS_LIMIT:,} combinations"
            )
        name = label(conversation or shipped())
        found = [
            Cell(
                order=order,
                multicast=multicast,
                members=members,
                rate=float(rate),
                loss=float(loss),
                delay_low_s=float(delay_s[0]),
                delay_high_s=float(delay_s[1]),
                messages=messages,
                conversation=name,
                seed=seed,
            )
            for order, multicast, members, rate, loss, delay_s, messages, seed in product(*axes)
        ]
        return list(dict.fromkeys(found))


def simulate(cell: Cell, conversation: Conversation | None = None) -> Result:
    """Runs one cell. What the protocols raise is in the result; a conversation other than the cell's is refused."""
    conversation = conversation or shipped()
    if label(conversation) != cell.conversation:
        raise InvalidOption("conversation", conversation.name, f"this cell is about {cell.conversation}; give that one")
    started = time.process_time()
    try:
        comparison = compare(
            lengthened(conversation, cell.messages),
            loss=cell.loss,
            rate=cell.rate,
            delay=(cell.delay_low_s, cell.delay_high_s),
            members=cell.members,
            seed=cell.seed,
            orders=(cell.order,),
            multicast=cell.multicast,
        )
    except Exception as error:  # a broken invariant of one cell is a result; raised, it would end the sweep, each time anew
        return _result(cell, {"error": f"{type(error).__name__}: {error}"}, started)
    return _result(cell, _figures(comparison[cell.order]), started)


def lengthened(conversation: Conversation, messages: int) -> Conversation:
    """Exactly so many lines: the first, or the whole said again and again."""
    lines = len(conversation.lines)
    if messages <= lines:
        return conversation.part(0, messages)
    told: list[Line] = []
    for turn in range(-(-messages // lines)):
        told += (
            Line(f"{line.id}/{turn}", line.author, tuple(f"{parent}/{turn}" for parent in line.parents), line.text)
            for line in conversation.lines
        )
    return Conversation(conversation.name, tuple(told[:messages]), conversation.skipped, conversation.dropped_parents)


@lru_cache(maxsize=4)
def label(conversation: Conversation) -> str:
    digest = blake2b(msgspec.msgpack.encode(conversation.lines), digest_size=4).hexdigest()
    return f"{conversation.name}@{digest}"


def _figures(result: OrderResult) -> dict[str, object]:
    held = result.hold_back
    return {
        "deliveries": held.deliveries,
        "held_share": held.held_share,
        "hold_mean_s": held.mean_s,
        "hold_p50_s": held.p50_s,
        "hold_p99_s": held.p99_s,
        "hold_max_s": held.max_s,
        "end_to_end_mean_s": held.end_to_end_mean_s,
        "spoken_rate": result.spoken_rate,
        "frames": sum(result.frames.values()),
        "data_frames": result.frames.get("data", 0),
        "broken": sum(result.broken.values()),
        "settled": result.settled,
    }


def _result(cell: Cell, figures: dict[str, object], started: float) -> Result:
    return msgspec.convert({**msgspec.structs.asdict(cell), **figures, "cpu_s": time.process_time() - started}, Result)
