"""A pair: real endpoints joined in memory, two or as many as you name, with a clock that you move.

    >>> from antiphon.testing import pair
    >>> two = pair("fifo")
    >>> two.rule("drop data from a to b first 1")
    >>> hello = two.send("a", b"hello")
    >>> two.exchange()
    >>> two.payloads("b")
    []
    >>> two.wait(1.0)
    >>> two.payloads("b")
    [b'hello']
    >>> two.check()
    []

Without rules nothing is lost and frames arrive in the order they were sent. Rules are the debugger's (`antiphon.debugger.rule`), so a
link can be scripted: drop, hold, delay, duplicate, reorder. What happened is in `logs`, which the oracles read.

Bound: an exchange that moves more than `FRAMES_LIMIT` frames will never end, and says so.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count

from antiphon.debugger.pattern import Point
from antiphon.debugger.rule import Rule
from antiphon.debugger.tap import Passage, Tap
from antiphon.model import codec
from antiphon.model.events import Event, Installed, Orphaned
from antiphon.model.frames import Batch
from antiphon.model.ids import MemberId, MessageId, new_group_id, new_member_id
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import View
from antiphon.protocol.endpoint import Endpoint
from antiphon.protocol.membership.flush import union
from antiphon.sim.log import Delivered, MemberLog, Received, Sent, Viewed, hash_of
from antiphon.sim.oracles import Violation, check

FRAMES_LIMIT = 100_000


class Pair:
    """The members by name, the frames between them, and the time. Made by `pair`."""

    def __init__(self, names: Sequence[str], options: GroupOptions, settings: Settings | None, seed: int) -> None:
        rng = random.Random(f"{seed}/pair")
        self.now = 0.0
        self.options = options
        self.id_of: dict[str, MemberId] = {name: new_member_id(name, rng) for name in names}
        self.endpoint: dict[str, Endpoint] = {}
        self.events: dict[str, list[Event]] = {name: [] for name in names}
        """Everything each member was told, in order."""
        self.rules: list[Rule] = []
        self.logs: list[MemberLog] = []
        self._tap = Tap(self.rules, rng.random)
        self._name_of = {member: name for name, member in self.id_of.items()}
        self._log_of: dict[str, MemberLog] = {}
        self._air: list[tuple[float, int, Point, Passage]] = []
        self._number = count()
        group, view = new_group_id("pair", rng), View(1, tuple(self.id_of.values()))
        for name, member in self.id_of.items():
            log = self._log_of[name] = MemberLog(member, [Viewed(0.0, view)])
            self.logs.append(log)
            own = random.Random(f"{seed}/pair/{name}")
            self.endpoint[name] = Endpoint(member, group, view, options, rng=own, settings=settings, on_accept=partial(self._accepted, log))

    # -- what you do ---------------------------------------------------------------------------------------------------------------

    def send(self, name: str, payload: bytes, reply_to: MessageId | None = None, after: Sequence[MessageId] = ()) -> MessageId:
        """Submits a message at a member. It leaves with the next `exchange`; until then, more join its batch."""
        sent = self.endpoint[name].submit(self.now, payload, reply_to, after)
        names = (*after,) if reply_to is None else (reply_to, *after)
        self._log_of[name].events.append(Sent(self.now, sent, names, reply_to is not None, hash_of(payload)))
        return sent

    def rule(self, text: str) -> None:
        """Adds one of the debugger's rules to the link, in words: `drop data from a to b first 1`."""
        self.rules.append(Rule.parse(text, tuple(self.id_of)))

    def release(self) -> int:
        """Lets go on what the rules hold; says how many frames that were."""
        released = self._tap.release()
        for point, passage in released:
            self._put(point, passage, 0.0)
        return len(released)

    def exchange(self) -> None:
        """Ends every member's turn, and carries frames until none is on its way."""
        for _ in range(FRAMES_LIMIT):
            for name in self.endpoint:
                self._drain(name)
            if not self._air or self._air[0][0] > self.now:
                return
            _, _, point, passage = heapq.heappop(self._air)
            if point == "out":
                for going, delay_s in self._tap.passing("in", passage):
                    self._put("in", going, delay_s)
            else:
                source, destination = MemberId(passage.source), MemberId(passage.destination)
                self.endpoint[self._name_of[destination]].receive(self.now, source, passage.wire)
        raise AssertionError(f"{FRAMES_LIMIT:,} frames at one instant: the members never stop answering each other")

    def wait(self, seconds: float) -> None:
        """Lets time pass: runs every timer that comes due, at its time, and carries what follows."""
        end = self.now + seconds
        self.exchange()
        while (due := self._due()) is not None and due <= end:
            self.now = max(due, self.now)
            for endpoint in self.endpoint.values():
                if endpoint.deadline is not None and endpoint.deadline <= self.now:
                    endpoint.tick(self.now)
            self.exchange()
        self.now = end

    def install(self, *names: str, starts: Mapping[str, int] | None = None, minority: Sequence[str] = ()) -> View:
        """Installs the next view at those members, which are its members. `starts` says after which of its messages each begins."""
        latest = max(endpoint.view.id for endpoint in self.endpoint.values())
        view = View(latest + 1, tuple(self.id_of[name] for name in names))
        after = None if starts is None else {self.id_of[name]: start for name, start in starts.items()}
        for name in names:
            self.endpoint[name].install(self.now, view, after, minority=name in minority)
        self.exchange()
        return view

    def flush(self, *names: str, limit_s: float = 30.0) -> bool:
        """Ends the view of those members: they stop, agree on what they hold together, and fetch what they lack of it. Says whether
        they all have it in time."""
        for name in names:
            self.endpoint[name].freeze(self.now)
        target, holders = union([self.endpoint[name].holdings() for name in names]), tuple(self.id_of[name] for name in names)
        for name in names:
            self.endpoint[name].aim(self.now, target, holders)
        end = self.now + limit_s
        while not all(self.endpoint[name].flushed for name in names) and self.now < end:
            self.wait(0.01)
        return all(self.endpoint[name].flushed for name in names)

    # -- what you ask ----------------------------------------------------------------------------------------------------------------

    def delivered(self, name: str) -> list[MessageId]:
        """Which messages a member delivered, in order."""
        return [event.id for event in self._log_of[name].events if type(event) is Delivered]

    def payloads(self, name: str) -> list[bytes]:
        """What a member delivered, in order."""
        found: list[bytes] = []
        for event in self.events[name]:
            if type(event) is tuple:
                found += [event[0].payload(seqno) for seqno in range(event[1], event[2] + 1)]
            elif type(event) is Orphaned:
                found.append(event.batch.payload(event.seqno))
        return found

    def check(self, settled: bool = True) -> list[Violation]:
        """Every promise of the group that was broken so far."""
        return check(self.logs, self.options.order, self.options.multicast, self.options.delivery, settled=settled)

    # -- inside ----------------------------------------------------------------------------------------------------------------------

    def _drain(self, name: str) -> None:
        endpoint = self.endpoint[name]
        effects = endpoint.drain(self.now)
        for destination, wire in effects.sends:
            for other in (member for member in endpoint.view.members if member != endpoint.me) if destination is None else destination:
                for passage, delay_s in self._tap.passing("out", Passage(endpoint.me, other, codec.kind_of(wire), wire)):
                    self._put("out", passage, delay_s)
        for event in effects.events:
            self.events[name].append(event)
            self._write(self._log_of[name], event)

    def _put(self, passed: Point, passage: Passage, delay_s: float) -> None:
        heapq.heappush(self._air, (self.now + delay_s, next(self._number), passed, passage))

    def _due(self) -> float | None:
        times = [endpoint.deadline for endpoint in self.endpoint.values() if endpoint.deadline is not None]
        if self._air:
            times.append(self._air[0][0])
        return min(times, default=None)

    def _accepted(self, log: MemberLog, batch: Batch, low: int, high: int) -> None:
        log.events += [Received(self.now, MessageId(batch.sender, seqno)) for seqno in range(low, high + 1)]

    def _write(self, log: MemberLog, event: Event) -> None:
        if type(event) is tuple:
            batch, low, high = event
            for seqno in range(low, high + 1):
                log.events.append(Delivered(self.now, MessageId(batch.sender, seqno), hash_of(batch.payload(seqno))))
        elif type(event) is Orphaned:
            told = MessageId(event.batch.sender, event.seqno)
            log.events.append(Delivered(self.now, told, hash_of(event.batch.payload(event.seqno)), event.missing))
        elif type(event) is Installed:
            log.events.append(Viewed(self.now, event.view))


def pair(
    order: str = "fifo",
    multicast: str = "reliable",
    *,
    names: Sequence[str] = ("a", "b"),
    delivery: str = "agreed",
    options: GroupOptions | None = None,
    settings: Settings | None = None,
    seed: int = 1,
) -> Pair:
    """Joins endpoints with these names. `options`, when given, says all that `order`, `multicast` and `delivery` would, and more."""
    return Pair(names, options or GroupOptions(order=order, multicast=multicast, delivery=delivery), settings, seed)
