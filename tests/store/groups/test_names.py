"""Node names are unique in a group on a store: a restarted node replaces its dead self, a second live node is refused."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from antiphon.errors import JoinFailed
from antiphon.model.ids import GroupId, MemberId, name_of
from antiphon.store.groups import record as rules
from antiphon.store.groups.presence import Presence
from antiphon.store.groups.record import GroupRecord
from antiphon.store.groups.register import Register

GROUP = GroupId("root#0000000000000001")
OLD, NEW, NEWER = (MemberId(f"ana#00000000000000{number:02x}") for number in (1, 2, 3))
BEN = MemberId("ben#00000000000000aa")


async def record_of(member: Any) -> GroupRecord:
    record = (await Register(member.backend).get("root")).record
    assert record is not None
    return record


def names(view: tuple[int, tuple[str, ...]]) -> list[str]:
    return [name_of(MemberId(member)) for member in view[1]]


def test_the_rules_of_claims() -> None:
    """A claim that is forgotten in the record would refuse or replace somebody later, or grow without a bound."""
    record = rules.joined(rules.founded(GROUP, OLD), BEN)
    assert rules.claimed(record, MemberId("cleo#0000000000000001")) is record, "nobody holds that name"
    claimed = rules.claimed(record, NEW)
    assert (claimed.epoch, claimed.members, claimed.claims) == (record.epoch, record.members, (NEW,))
    assert rules.claimed(claimed, NEW) is claimed
    assert rules.claimed(claimed, NEWER).claims == (NEWER,), "one claim per name"
    assert rules.refuted(claimed, BEN) is claimed, "only the holder answers"
    assert rules.refuted(claimed, OLD) == record
    assert rules.left(claimed, NEW) == record, "a newcomer that gives up withdraws its claim"
    replaced = rules.replaced(claimed, NEW)
    assert (replaced.epoch, replaced.members, replaced.claims) == (record.epoch + 1, (BEN, NEW), ())
    assert set(replaced.makers) >= {OLD, NEW}
    gone = rules.left(claimed, OLD)
    assert gone is not None
    assert gone.claims == (), "without a holder there is nothing to claim"
    assert rules.decode(rules.encode(claimed)) == claimed


def test_a_restarted_node_replaces_its_dead_self_in_one_change(company: Any) -> None:
    """A node that was killed and restarted would stand beside its dead self until `silence_s` is over."""

    async def story(everybody: Any) -> None:
        old = await everybody.join("ana", silence_s=600.0)
        ben = await everybody.join("ben")
        await everybody.until(lambda: ben.stable and len(ben.views()[-1][1]) == 2)
        old.core.stop()  # as kill -9 does
        new = await (await everybody.member("ana", seed=1)).join()
        await everybody.until(lambda: new.core.me in ben.views()[-1][1] and new.stable and ben.stable)
        assert [names(view) for view in ben.views()] == [["ana", "ben"], ["ben", "ana"]], "no view has both, no view has neither"
        assert new.core.replaced == (old.core.me,)
        beats = await ben.backend.records(f"presence/{ben.core.group}/")
        assert sorted(beat.key.rpartition("/")[2] for beat in beats) == sorted([ben.core.me, new.core.me])
        await new.send(b"back")
        await everybody.until(lambda: b"back" in ben.log())

    company(story)


def test_a_second_live_node_of_one_name_is_refused(company: Any) -> None:
    """Two programs that were configured alike would both be in the group, and nobody could tell them apart."""

    async def story(everybody: Any) -> None:
        first = await everybody.join("ana", silence_s=77.0)
        await everybody.until(lambda: first.stable)
        second = await everybody.member("ana", seed=1)
        with pytest.raises(JoinFailed, match=rf"'ana' is held by the live member {first.core.me}, .* silent for 77 s: stop that node"):
            await second.join()
        await second.core.give_up()
        record = await record_of(first)
        assert (record.members, record.epoch, record.claims) == ((first.core.me,), 1, ())
        await first.send(b"still here")
        await everybody.until(lambda: b"still here" in first.log())
        assert first.departed is None
        beats = await first.backend.records(f"presence/{first.core.group}/")
        assert [beat.key.rpartition("/")[2] for beat in beats] == [first.core.me]

    company(story)


@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_of_nodes_of_one_name_that_join_at_once_one_is_admitted(company: Any, seed: int, dead: bool) -> None:
    """Two restarts of one service that overlap would both be in, or both be refused."""

    async def story(everybody: Any) -> None:
        rng = random.Random(seed)
        ben = await everybody.join("ben", silence_s=600.0)
        if dead:
            old = await everybody.join("ana")
            await everybody.until(lambda: old.stable)
            old.core.stop()
        await everybody.until(lambda: ben.stable)
        newcomers = [await everybody.member("ana", seed=10 * seed + number + 1) for number in range(4)]

        async def come(member: Any) -> bool:
            await asyncio.sleep(rng.uniform(0, 0.02))
            try:
                await member.join()
            except JoinFailed:
                await member.core.give_up()
                return False
            return True

        admitted = [member for member, came in zip(newcomers, await asyncio.gather(*map(come, newcomers)), strict=True) if came]
        assert len(admitted) == 1
        await everybody.until(lambda: set(ben.views()[-1][1]) == {ben.core.me, admitted[0].core.me} and admitted[0].stable)
        for _, members in ben.views():
            assert len({name_of(member) for member in members}) == len(members), "no name twice in any view"
        assert (await record_of(ben)).claims == ()

    company(story)


def test_a_member_that_was_replaced_while_it_was_cut_off_is_told(company: Any) -> None:
    """It would come in again beside the one that has its name by now, or wait for ever without being told."""

    async def story(everybody: Any) -> None:
        ben = await everybody.join("ben", silence_s=600.0)
        old = await everybody.join("ana")
        await everybody.until(lambda: old.stable and ben.stable)
        old.backend.cut = True
        new = await (await everybody.member("ana", seed=1)).join()
        await everybody.until(lambda: new.core.me in ben.views()[-1][1])
        old.backend.cut = False
        old.core.resume()
        await everybody.until(lambda: old.departed is not None)
        assert old.departed is not None
        assert f"replaced by {new.core.me}" in old.departed
        record = await record_of(ben)
        assert record.members == (ben.core.me, new.core.me)

    company(story)


def test_a_newcomer_waits_for_the_holder_of_its_name_that_leaves(company: Any) -> None:
    """A service that is restarted would be refused because its old process is just leaving."""

    async def story(everybody: Any) -> None:
        ben = await everybody.join("ben", silence_s=600.0)
        old = await everybody.join("ana")
        await everybody.until(lambda: old.stable)
        ghost = MemberId("ghost#0000000000000001")  # never reads: the record is unstable, so leaving waits for it
        await Presence(ben.backend, ben.core.group, ghost).beat()
        await Register(ben.backend).change("root", lambda now: now and rules.joined(now, ghost))
        leaving = asyncio.create_task(old.core.leave())
        await asyncio.sleep(0)
        new = await (await everybody.member("ana", seed=1, settle_s=0.01)).join()
        await leaving
        await everybody.until(lambda: new.core.me in ben.views()[-1][1] and old.core.me not in ben.views()[-1][1])

    company(story)


def test_a_claim_of_a_newcomer_that_died_stops_nobody(company: Any) -> None:
    """A node that crashes while it joins, again and again, would leave claims behind that refuse the next attempt."""

    async def story(everybody: Any) -> None:
        ben = await everybody.join("ben", silence_s=600.0)
        old = await everybody.join("ana")
        await everybody.until(lambda: old.stable)
        old.core.stop()
        await Register(ben.backend).change("root", lambda now: now and rules.claimed(now, NEW))
        assert (await record_of(ben)).claims == (NEW,)
        new = await (await everybody.member("ana", seed=1)).join()
        record = await record_of(ben)
        assert (record.members, record.claims) == ((ben.core.me, new.core.me), ())

    company(story)


@pytest.mark.parametrize("seed", range(4))
def test_lost_answers_do_not_admit_two_nodes_of_one_name(company: Any, seed: int) -> None:
    """A claim or an admission whose answer was lost would be repeated as if it had not happened, and a name would be there twice."""

    async def story(everybody: Any) -> None:
        ben = await everybody.join("ben", silence_s=600.0)
        old = await everybody.join("ana")
        await everybody.until(lambda: old.stable and ben.stable)
        old.core.stop()
        newcomers = [await everybody.member("ana", seed=10 * seed + number + 1, loss=0.2) for number in range(2)]

        async def come(member: Any) -> bool:
            try:
                await member.join()
            except JoinFailed:
                await member.core.give_up()
                return False
            return True

        outcomes = await asyncio.gather(*map(come, newcomers))
        assert sum(outcomes) == 1
        admitted = newcomers[outcomes.index(True)]
        for member in newcomers:
            member.backend.loss = 0.0
        await everybody.until(lambda: set(ben.views()[-1][1]) == {ben.core.me, admitted.core.me} and ben.stable)
        for _, members in ben.views():
            assert len({name_of(member) for member in members}) == len(members)

    company(story)
