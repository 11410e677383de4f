"""What came of a case, in plain values: it crosses processes and is a line of a campaign's file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.sim.ground import Ground
from antiphon.sim.log import Delivered
from antiphon.sim.oracles import Violation
from antiphon.sim.swarm.case import Case

Keep: TypeAlias = Callable[[Ground[Any]], object]
"""Somebody who is given a recorded world at its end."""

_SENTENCES_KEPT = 3


class Outcome(Struct, frozen=True, kw_only=True):
    """What came of a case. `broken` counts the violations of each promise, and `violations` tells the first few of each; `stalled` says
    what still waits, `error` what was raised. All empty is good."""

    case: Case
    broken: dict[str, int] = {}
    violations: tuple[str, ...] = ()
    stalled: str = ""
    error: str = ""
    sent: int = 0
    refused: int = 0
    deliveries: int = 0
    frames: int = 0
    lives: int = 0
    """Members, and one more for each that came back."""
    virtual_s: float = 0.0
    log_hash: str = ""

    @property
    def ok(self) -> bool:
        return not (self.broken or self.stalled or self.error)

    def __str__(self) -> str:
        if self.ok:
            return f"seed {self.case.seed}: {self.deliveries:,} deliveries, every promise kept"
        told = [*([self.error] if self.error else []), *([f"stalled: {self.stalled}"] if self.stalled else []), *self.violations]
        more = sum(self.broken.values()) - len(self.violations)
        told += [f"and {more} more violations"] if more else []
        return f"seed {self.case.seed} ({self.case.order} over {self.case.multicast}, {self.case.delivery}): {'; '.join(told)}"


def outcome_of(
    case: Case, world: Ground[Any], violations: Iterable[Violation], *, sent: int, refused: int, stalled: str = "", error: str = ""
) -> Outcome:
    """The outcome of a run that has ended, well or badly."""
    broken: dict[str, int] = {}
    sentences: list[str] = []
    for violation in violations:
        broken[violation.promise] = broken.get(violation.promise, 0) + 1
        if broken[violation.promise] <= _SENTENCES_KEPT:
            sentences.append(str(violation))
    return Outcome(
        case=case,
        broken=broken,
        violations=tuple(sentences),
        stalled=stalled,
        error=error,
        sent=sent,
        refused=refused,
        deliveries=sum(type(event) is Delivered for log in world.logs for event in log.events),
        frames=world.frames.total(),
        lives=len(world.logs),
        virtual_s=world.now,
        log_hash=blake2b(msgspec.msgpack.encode(world.logs), digest_size=8).hexdigest(),
    )
