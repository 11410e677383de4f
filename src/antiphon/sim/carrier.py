"""Carries frames from one process to another: through the debugger's rules, over the links, and through the rules again.

A frame passes the rules twice: `out`, before it is put on its link, and `in`, when it has come out of it and before the process
sees it. Every frame put on a link by a process is counted in `frames`, and its length in `bytes`; copies made by the rules or by the
network are not.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeAlias

from antiphon.debugger.pattern import Pattern
from antiphon.debugger.rule import Rule
from antiphon.debugger.tap import Passage, Tap
from antiphon.model import codec
from antiphon.model.frames import Batch, Fragment, Record
from antiphon.model.ids import Address, MemberId, MessageId, name_of
from antiphon.sim.network import FrameKey, Network, NetworkModel
from antiphon.sim.scheduler import Scheduler

Place: TypeAlias = MemberId | Address
"""Where frames come from and go to: the member whose endpoint it is, or the address of a node, which is its name."""

_IDLE_KINDS = frozenset(("digest", "beat", "ping", "pong", "enquire", "vouch", "detour", "relay", "beacon", "gone", "advertise", "groups"))
"""Frames that go on for ever, whether or not anything happens."""
_NO_KEY: FrameKey = ("", "", 0, 0)


class Carrier:
    def __init__(self, model: NetworkModel, seed: int, scheduler: Scheduler, arrive: Callable[[Passage], None]) -> None:
        self.network = Network(model, seed)
        self.frames: Counter[tuple[str, str, str]] = Counter()
        self.bytes: Counter[tuple[str, str, str]] = Counter()
        self.rules: list[Rule] = []
        self.tap = Tap(self.rules, random.Random(f"{seed}/rules").random)
        self.in_flight = 0
        """Frames that matter and have not reached their process; those that the rules hold are not among them."""
        self._scheduler, self._arrive = scheduler, arrive

    def cast(self, source: Place, destinations: Iterable[Place], wire: bytes) -> None:
        kind = codec.kind_of(wire)
        name = name_of(source)
        # Looked at once per frame, not once per link: every copy of a frame has the same key.
        key = key_of(wire) if self.network.model.keyed else _NO_KEY
        for destination in destinations:
            link = (name, name_of(destination), kind)
            self.frames[link] += 1
            self.bytes[link] += len(wire)
            passage = Passage(source, destination, kind, wire)
            if self.rules:
                for passed, delay_s in self.tap.passing("out", passage):
                    self._put_later(passed, delay_s)
            else:
                self._put(passage, key)

    def release(self, pattern: Pattern | None, message: MessageId | None, count: int | None) -> int:
        """Lets held frames go on; says how many."""
        released = self.tap.release(pattern, message, count)
        for point, passage in released:
            if point == "out":
                self._put_later(passage, 0.0)
            else:
                self._fly(passage, self._scheduler.now, True)
        return len(released)

    def _put_later(self, passage: Passage, delay_s: float) -> None:
        if delay_s:
            self._count(passage, 1)
            self._scheduler.at(self._scheduler.now + delay_s, self._put_delayed, passage)
        else:
            self._put(passage, key_of(passage.wire) if self.network.model.keyed else _NO_KEY)

    def _put_delayed(self, passage: Passage, _: None) -> None:
        self._count(passage, -1)
        self._put_later(passage, 0.0)

    def _put(self, passage: Passage, key: FrameKey) -> None:
        source, destination = name_of(passage.source), name_of(passage.destination)
        for arrival in self.network.arrivals(self._scheduler.now, source, destination, len(passage.wire), key):
            self._fly(passage, arrival, False)

    def _fly(self, passage: Passage, arrival: float, tapped: bool) -> None:
        self._count(passage, 1)
        self._scheduler.at(arrival, self._land, passage, tapped)

    def _land(self, passage: Passage, tapped: bool) -> None:
        self._count(passage, -1)
        if tapped or not self.rules:
            self._arrive(passage)
            return
        for passed, delay_s in self.tap.passing("in", passage):
            if delay_s:
                self._fly(passed, self._scheduler.now + delay_s, True)
            else:
                self._arrive(passed)

    def _count(self, passage: Passage, by: int) -> None:
        if matters(passage.kind):
            self.in_flight += by


def matters(kind: str) -> bool:
    """Whether frames of this kind can still change what somebody delivers, or who is in a group."""
    return kind not in _IDLE_KINDS


def key_of(wire: bytes) -> FrameKey:
    """Which frame it is, apart from what its order wrote into it. What has no number counts per member, or per kind."""
    frame = codec.decode(wire)
    kind = codec.kind_of(wire)
    if isinstance(frame, Fragment):
        return (kind, frame.sender, frame.first, frame.index)
    if isinstance(frame, (Batch, Record)):
        return (kind, frame.sender, frame.first, 0)
    return (kind, getattr(frame, "member", ""), 0, 0)
