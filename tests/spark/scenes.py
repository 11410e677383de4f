"""Clean traces of small groups, as lists of lines that a test may change before they become rows.

A scene goes in rounds: some members send at the same time, knowing everything of the rounds before, and then everybody receives and
delivers what was sent, in one order. So it keeps the promises of every order; what was sent in one round has no causes among itself.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from antiphon.trace.row import Name, Row
from antiphon.trace.schema import SHORT

_STRANGERS = ("open", "close", "crash")


@dataclass(eq=False)
class Line:
    """A row that has no number yet. Two lines are never equal: they are told apart by being."""

    kind: str
    view: int = 0
    sender: str | None = None
    first: int = 0
    last: int = 0
    names: list[Name] | None = None
    checks: list[int] | None = None
    note: str | None = None
    members: list[str] | None = None
    amount: int = 0
    at: int = 0
    position: int = 0
    member: str | None = None
    round: int = 0
    jump: int = 0
    """Of a delivery: by how much its position is off; later ones follow from it."""

    def copy(self, **changes: object) -> Line:
        twin = Line(**{**self.__dict__, "checks": list(self.checks or [])})
        twin.__dict__.update(changes)
        return twin

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    def holds(self, number: int) -> bool:
        return self.first <= number <= self.last


@dataclass
class Scene:
    run: str
    group: str
    lines: dict[str, list[Line]]
    store: bool = False

    @property
    def members(self) -> list[str]:
        return list(self.lines)

    def of(self, member: str, kind: str = "deliver", *, view: int | None = None, sender: str | None = None) -> list[Line]:
        return [
            line
            for line in self.lines[member]
            if line.kind == kind and (view is None or line.view == view) and (sender is None or line.sender == sender)
        ]

    def one(self, member: str, sender: str, number: int, kind: str = "deliver") -> Line:
        """The member's line about a message."""
        return next(line for line in self.of(member, kind, sender=sender) if line.holds(number))

    def move(self, member: str, moved: Sequence[Line], *, before: Line | None = None, after: Line | None = None) -> None:
        """Puts lines somewhere else; lines that were not there are put in."""
        lines = [line for line in self.lines[member] if line not in moved]
        place = lines.index(before) if before is not None else lines.index(after) + 1  # type: ignore[arg-type]
        self.lines[member] = [*lines[:place], *moved, *lines[place:]]

    def remove(self, member: str, *gone: Line) -> None:
        self.lines[member] = [line for line in self.lines[member] if line not in gone]

    def end(self, member: str) -> Line:
        """The first of the lines that end a member's life."""
        ends = ("stable", "leave", "close", "crash")
        return next(line for line in self.lines[member] if line.kind in ends and line.view in (0, self.of(member, "view")[-1].view))

    def unit(self, member: str, line: Line) -> list[Line]:
        """A delivery with what was received just before it."""
        place = self.lines[member].index(line)
        return [self.lines[member][place - 1], line]

    def rows(self) -> list[Row]:
        return [row for member in self.lines for row in self._rows_of(member)]

    def index(self, member: str, line: Line) -> int:
        return self.lines[member].index(line)

    def _rows_of(self, writer: str) -> Iterator[Row]:
        position = 0
        for index, line in enumerate(self.lines[writer]):
            group = None if line.kind in _STRANGERS else self.group
            member = None if line.kind in _STRANGERS else line.member or (None if self.store else writer)
            position += line.jump
            place = position if line.kind == "deliver" else line.position
            at = line.at or index
            here = (self.run, writer, index, line.kind, at, at, at, group, member, line.view, line.sender, line.first, line.last)
            yield Row(*here, place, line.amount, line.members, line.names, line.checks, line.note)
            position += line.count if line.kind == "deliver" else 0


@dataclass
class Plan:
    """How a scene is to be."""

    order: str = "fifo"
    multicast: str = "reliable"
    delivery: str = "agreed"
    partitions: str = "continue"
    members: int = 4
    rounds: int = 10
    batch: int = 3
    views: int = 2
    each: bool = False
    replies: float = 0.0
    empty: tuple[int, ...] = ()
    """Views in which nothing is said."""
    dies: bool = False
    leaves: bool = False
    """The last member dies, or leaves, at the end of the first view."""
    places: bool = True
    wants: str = "founder"
    promises: tuple[str, ...] | None = None
    """What `group` rows state; None: nothing, as in older traces."""
    sent: dict[str, int] = field(default_factory=dict)


def scene(run: str, group: str, plan: Plan, seed: int) -> Scene:
    rng = random.Random(f"{seed}/{group}")
    everybody = [f"m{number:02}#{rng.getrandbits(64):016x}" for number in range(plan.members)]
    lines: dict[str, list[Line]] = {member: [Line("open", note="{}")] for member in everybody}
    about: dict[str, object] = {"name": group, "order": plan.order, "multicast": plan.multicast, "delivery": plan.delivery}
    about |= {"partitions": plan.partitions} | ({} if plan.promises is None else {"promises": list(plan.promises)})
    here = list(everybody)
    sent = dict.fromkeys(everybody, 0)
    known: list[tuple[str, int]] = []
    at = 0
    for view in range(1, plan.views + 1):
        for member in here:
            if view == 1:
                lines[member].append(Line("group", view=1, note=json.dumps({**about, "wants": plan.wants})))
            told = json.dumps({"coordinator": here[0], "previous": view - 1})
            lines[member].append(Line("view", view=view, members=list(here), note=told))
        for number in range(0 if view in plan.empty else plan.rounds // plan.views):
            at += 1
            at = _round(rng, plan, lines, here, view, sent, known, view * 100_000 + number, at)
        places = sum(line.count for line in lines[here[0]] if line.kind == "deliver" and line.view == view)
        if view == 1 and (plan.dies or plan.leaves):
            gone = here.pop()
            lines[gone] += _stable(plan, sent, view, places)
            lines[gone] += [Line("crash")] if plan.dies else [Line("leave", view=view, note="left"), Line("close")]
    for member in here:
        lines[member] += [*_stable(plan, sent, plan.views, places), Line("close")]
    return Scene(run, group, lines)


def _stable(plan: Plan, sent: dict[str, int], view: int, places: int) -> list[Line]:
    names: list[Name] = [(0, sender, number) for sender, number in sent.items() if number]
    known = [Line("stable", view=view, names=names)]
    if plan.order == "total" or "total" in (plan.promises or ()):
        known.append(Line("stable", view=view, amount=places, note="places"))
    return known if plan.places else []


def _round(
    rng: random.Random,
    plan: Plan,
    lines: dict[str, list[Line]],
    here: Sequence[str],
    view: int,
    sent: dict[str, int],
    known: list[tuple[str, int]],
    number: int,
    at: int,
) -> int:
    senders = rng.sample(list(here), min(len(here), rng.randint(2, 4)))
    batches = []
    for sender in senders:
        first = sent[sender] + 1
        last = sent[sender] = first + rng.randint(1, plan.batch) - 1
        checks = [rng.getrandbits(31) for _ in range(first, last + 1)]
        names: list[Name] = []
        for seqno in range(first, last + 1):
            if known and rng.random() < plan.replies:
                names += [(seqno, *parent) for parent in rng.sample(known[-40:], min(len(known), rng.choice((1, 1, 2))))]
        lines[sender].append(Line("send", view, sender, first, last, names or None, checks, at=at, round=number))
        batches.append((sender, first, last, checks))
    known += [(sender, seqno) for sender, first, last, _ in batches for seqno in range(first, last + 1)]
    for sender, first, last, checks in batches:
        at += 1
        for member in here:
            seen = list(checks) if plan.each or len(checks) > SHORT else checks[-1:]
            lines[member].append(Line("receive", view, sender, first, last, at=at, round=number))
            lines[member].append(Line("deliver", view, sender, first, last, None, seen, at=at, round=number))
    return at


def topic(run: str, name: str, seed: int, values: int = 60) -> Scene:
    """A topic that one publishes, two subscribe to, one of which comes back once, and a third who comes when the beginning is collected."""
    rng = random.Random(f"{seed}/{name}")
    publisher, first, second, late, collector = (f"{role}#{rng.getrandbits(64):016x}" for role in ("pub", "one", "two", "late", "gc"))
    lines: dict[str, list[Line]] = {writer: [Line("open", note="{}")] for writer in (publisher, first, second, late, collector)}
    for begin, end in _cut(rng, 1, values):
        lines[publisher].append(
            Line("publish", 0, "publisher-1", begin, end, None, [rng.getrandbits(31) for _ in range(begin, end + 1)], position=begin)
        )
    half, floor = values // 2, values // 4
    lines[first] += [Line("read", 1, None, begin, end, member="s-1") for begin, end in _cut(rng, 1, values - 4)]
    lines[first].append(Line("done", 1, None, 0, half, member="s-1"))
    lines[second] += [Line("read", 2, None, begin, end, member="s-1") for begin, end in _cut(rng, half + 1, values)]
    lines[second].append(Line("done", 2, None, 0, values - 3, member="s-1"))
    lines[second].append(Line("done", 2, None, 0, values, member="s-1"))
    lines[collector].append(Line("collect", 0, None, 0, floor))
    lines[late].append(Line("read", 1, None, 1, floor, note="gap", member="s-2"))
    lines[late] += [Line("read", 1, None, begin, end, member="s-2") for begin, end in _cut(rng, floor + 1, values)]
    for written in lines.values():
        written.append(Line("close"))
    return Scene(run, name, lines, store=True)


def _cut(rng: random.Random, first: int, last: int) -> Iterable[tuple[int, int]]:
    while first <= last:
        end = min(first + rng.randint(2, 8), last)
        yield first, end
        first = end + 1
