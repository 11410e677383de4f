"""The group record: its rules, and that compare-and-set keeps them whoever changes it at the same time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Generator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import BadStore, Conflict
from antiphon.model.ids import GroupId, MemberId
from antiphon.store.groups import record as rules
from antiphon.store.groups.record import GroupRecord
from antiphon.store.groups.register import ATTEMPTS, Register
from antiphon.store.memory import MemoryBackend

GROUP = GroupId("root#0000000000000001")
PEOPLE = [MemberId(f"{name}#00000000000000{number:02x}") for number, name in enumerate(("ana", "ben", "cleo", "dan", "eva"))]
ANA, BEN, CLEO, DAN, EVA = PEOPLE


def of(*members: MemberId) -> GroupRecord:
    record = rules.founded(GROUP, members[0])
    for member in members[1:]:
        record = rules.joined(record, member)
    return record


def test_the_story_of_a_group() -> None:
    """Members would see another group than the one that was agreed on."""
    record = rules.founded(GROUP, ANA)
    assert (record.epoch, record.members, record.makers, record.stable) == (1, (ANA,), (ANA,), False)
    record = rules.read(record, ANA)
    assert record.stable
    record = rules.joined(record, BEN)
    assert (record.epoch, record.members, record.readers, record.makers) == (2, (ANA, BEN), (), (BEN,))
    half = rules.read(record, ANA)
    assert (half.epoch, half.readers, half.stable) == (2, (ANA,), False), "reading is no change of the view"
    three = rules.joined(half, CLEO)
    assert three.makers == (BEN, CLEO), "until all have read it, all who moved since are told"
    gone = rules.left(three, ANA)
    assert gone is not None
    assert (gone.epoch, gone.members) == (4, (BEN, CLEO))
    alone = rules.left(gone, BEN)
    assert alone is not None
    assert rules.left(alone, CLEO) is None, "a group with no members is deleted"


def test_whoever_sees_a_partition_does_not_erase_those_who_saw_it_before() -> None:
    """Of a split group only the last to notice would be left: each would empty the record and add itself."""
    record = of(ANA, BEN, CLEO, DAN)
    first = rules.parted(record, [CLEO, DAN])
    assert first is not None
    assert (first.epoch, first.members, set(first.makers) >= {CLEO, DAN}) == (record.epoch + 1, (ANA, BEN), True)
    assert rules.parted(first, [CLEO, DAN]) is first, "the second to notice finds it done"
    back = rules.merged(first, CLEO)
    assert (back.members, back.sides) == ((ANA, BEN, CLEO), ((ANA, BEN), (CLEO,)))
    both = rules.merged(back, DAN)
    assert (both.epoch, both.members) == (record.epoch + 3, (ANA, BEN, CLEO, DAN))
    assert rules.merged(both, DAN) is both


@pytest.mark.parametrize(
    "repeat",
    [
        lambda record: rules.joined(record, ANA),
        lambda record: rules.left(record, EVA),
        lambda record: rules.parted(record, [EVA]),
        lambda record: rules.merged(record, BEN),
        lambda record: rules.read(rules.read(record, ANA), ANA) and rules.read(record, EVA),
    ],
)
def test_what_is_so_already_changes_nothing(repeat: Callable[[GroupRecord], GroupRecord | None]) -> None:
    """Whoever repeats a change after a lost answer would make a view of its own."""
    record = of(ANA, BEN)
    assert repeat(record) is record


# --- concurrent changes -------------------------------------------------------------------------------------------------------------

Step = Generator[None, None, None]


class Cell:
    """A record in a store, and everything that ever was in it."""

    def __init__(self) -> None:
        self.record: GroupRecord | None = None
        self.revision = 0
        self.past: list[GroupRecord | None] = [None]

    def write(self, record: GroupRecord | None) -> None:
        self.record = record
        self.revision += 1
        self.past.append(record)


class Actor:
    """A node that changes the record, one read or write at a time, so that anybody may come between."""

    def __init__(self, cell: Cell, me: MemberId, *, conditional: bool = True) -> None:
        self.cell, self.me, self.conditional = cell, me, conditional
        self.inside = False

    def change(self, transition: Callable[[GroupRecord | None], GroupRecord | None]) -> Step:
        while True:
            before, revision = self.cell.record, self.cell.revision
            after = transition(before)
            if after is before:
                return
            yield
            if not self.conditional or self.cell.revision == revision:
                self.cell.write(after)
                return

    def act(self, what: str, others: list[MemberId]) -> Step:
        if what == "join":
            self.inside = True
            return self.change(lambda now: rules.joined(now, self.me) if now else rules.founded(GROUP, self.me, epoch=self._after()))
        if what == "leave":
            self.inside = False
            return self.change(lambda now: now and rules.left(now, self.me))
        if what == "read":
            return self.change(lambda now: now and rules.read(now, self.me))
        if what == "merge":
            return self.change(lambda now: now and rules.merged(now, self.me) if self.inside else now)
        return self.change(lambda now: now and rules.parted(now, others) if now and not set(now.members) <= set(others) else now)

    def _after(self) -> int:
        return max((record.epoch for record in self.cell.past if record is not None), default=0) + 1


def complaints(cell: Cell, actors: list[Actor], lost_by_parting: set[MemberId]) -> list[str]:
    """What is wrong with the past of a record, and with who is in it in the end."""
    found = []
    for record in cell.past:
        if record is not None and len(set(record.members)) != len(record.members):
            found.append("a member is in twice")
        if record is not None and not record.members:
            found.append("a group without members is there")
        if record is not None and not set(record.readers) <= set(record.members):
            found.append("somebody has read who is not in")
    views = [(record.epoch, record.members) for record in cell.past if record is not None]
    if any(later[0] < earlier[0] or (later[0] == earlier[0] and later[1] != earlier[1]) for earlier, later in pairwise(views)):
        found.append("epochs do not increase")
    inside = set(cell.record.members) if cell.record else set()
    for actor in actors:
        if actor.inside and actor.me not in inside and actor.me not in lost_by_parting:
            found.append("a join was lost")
        if not actor.inside and actor.me in inside:
            found.append("a leave was lost")
    return found


def play(choices: list[tuple[int, str]], schedule: random.Random, *, conditional: bool = True) -> list[str]:
    """Lets every actor do what it is to do, one step of one of them at a time."""
    cell = Cell()
    actors = [Actor(cell, me, conditional=conditional) for me in PEOPLE]
    plans: dict[int, list[str]] = {}
    for who, what in choices:
        plans.setdefault(who, []).append(what)
    parted: set[MemberId] = set()
    running: dict[int, Step] = {}
    while plans or running:
        who = schedule.choice(sorted(set(plans) | set(running)))
        if who not in running:
            what = plans[who].pop(0)
            plans = {key: rest for key, rest in plans.items() if rest}
            others = [other for other in PEOPLE if other != PEOPLE[who] and schedule.random() < 0.3] if what == "part" else []
            parted |= set(others)
            running[who] = actors[who].act(what, others)
        try:
            next(running[who])
        except StopIteration:
            del running[who]
    return complaints(cell, actors, parted)


STEPS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["join", "join", "leave", "read", "part", "merge"])), max_size=24)


@given(STEPS, st.integers(0, 2**32))
def test_whatever_happens_at_the_same_time_no_join_is_lost(choices: list[tuple[int, str]], seed: int) -> None:
    """Of two who join at the same moment one would believe to be in, and nobody would know it."""
    assert play(choices, random.Random(seed)) == []


def test_reading_and_then_writing_loses_a_join() -> None:
    """A check that cannot see a lost join would prove nothing about those that are not lost."""
    both_join = [(0, "join"), (1, "join"), (2, "join")]
    found = {complaint for seed in range(50) for complaint in play(both_join, random.Random(seed), conditional=False)}
    assert "a join was lost" in found
    assert not any(play(both_join, random.Random(seed)) for seed in range(50))


# --- on a store ---------------------------------------------------------------------------------------------------------------------


def test_twenty_join_at_the_same_moment_and_all_are_in() -> None:
    """Twenty nodes that are started by one script would not find each other."""

    async def story() -> None:
        backend = MemoryBackend()
        await backend.open()
        people = [MemberId(f"n{number}#{number:016x}") for number in range(20)]

        async def join(me: MemberId) -> bool:
            register = Register(backend, random.Random(me))
            entry, mine = await register.change(
                "root", lambda now: rules.founded(GROUP, me) if now is None else rules.joined(now, me)
            )
            return mine and entry.record is not None and me in entry.record.members

        assert all(await asyncio.gather(*map(join, people)))
        record = (await Register(backend).get("root")).record
        assert record is not None
        assert (set(record.members), record.epoch) == (set(people), 20)

        async def leave(me: MemberId) -> None:
            await Register(backend, random.Random(me)).change("root", lambda now: now and rules.left(now, me))

        await asyncio.gather(*map(leave, people))
        assert await backend.records("") == [], "a group with no members is deleted"

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_change_that_never_wins_ends_with_a_conflict() -> None:
    """Whoever joins a group that is never quiet would wait for ever."""

    async def story() -> None:
        backend = MemoryBackend()
        await backend.open()
        busy = Register(backend, random.Random(1))
        await busy.change("root", lambda now: rules.founded(GROUP, ANA))
        attempts = 0

        async def somebody_else_is_faster(record: GroupRecord) -> None:
            nonlocal attempts
            attempts += 1
            flip = rules.left if BEN in record.members else rules.joined
            await Register(backend).change("root", lambda now: now and flip(now, BEN))

        register = Register(backend, random.Random(2))
        register.pause_max_s = 0.0
        with pytest.raises(Conflict):
            await register.change("root", lambda now: now and rules.joined(now, CLEO), somebody_else_is_faster)
        assert attempts == ATTEMPTS == register.conflicts

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_record_that_is_none_is_one_clear_error() -> None:
    """Somebody's other data under the name of a group would end every node with a traceback of a decoder."""

    async def story() -> None:
        backend = MemoryBackend()
        await backend.open()
        await backend.put("group/root", b"\xc1 what is this", 0)
        with pytest.raises(BadStore, match="none of a group"):
            await Register(backend).get("root")

    asyncio.run(asyncio.wait_for(story(), 60))
