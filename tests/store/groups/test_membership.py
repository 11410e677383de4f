"""Groups on a store: everybody sees the same messages and views in the same order, whoever dies, is away, or does not hear an answer."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from antiphon.errors import JoinFailed
from antiphon.model.control import Wants
from antiphon.model.events import Installed
from antiphon.model.ids import GroupId, MemberId
from antiphon.store.groups import keeping, values
from antiphon.store.groups import record as rules
from antiphon.store.groups.membership import StoreMembership
from antiphon.store.groups.placing import topic_of
from antiphon.store.groups.presence import Presence
from antiphon.store.groups.register import Register
from antiphon.store.memory import MemoryBackend
from antiphon.store.records import Entry, TopicOptions


def agree(members: list[Any]) -> None:
    """What one was told since it caught up is what the one with the longest story was told from there on."""
    longest = max((member.log() for member in members), key=len)
    for member in members:
        log = member.log()
        numbers = [number for number, _ in member.views()]
        assert numbers == sorted(set(numbers)), f"{member.name} was told of a view twice, or too late: {numbers}"
        assert log == longest[len(longest) - len(log) :] or log == longest[_at(longest, log) : _at(longest, log) + len(log)], (
            f"{member.name} was told {log}, others {longest}"
        )


def _at(longest: list[Any], log: list[Any]) -> int:
    return longest.index(log[0]) if log and log[0] in longest else 0


def test_messages_and_views_have_one_order(company: Any) -> None:
    """Two members would disagree on what was said before somebody came."""

    async def story(everybody: Any) -> None:
        members = await asyncio.gather(*(everybody.join(f"n{number}") for number in range(4)))

        async def talk(member: Any) -> None:
            for number in range(12):
                await member.send(f"{member.name} {number}".encode())
                await asyncio.sleep(0)

        async def come_and_go() -> None:
            guest = await everybody.join("guest", wants=Wants(kind="none"))
            await guest.send(b"hello")
            await guest.core.leave()

        await asyncio.gather(*map(talk, members), come_and_go())
        await everybody.until(lambda: all(len(member.views()[-1][1]) == 4 and member.stable for member in members))
        await everybody.until(lambda: all(len([entry for entry in member.log() if isinstance(entry, bytes)]) >= 49 for member in members))
        agree(members)
        said = [entry for entry in members[0].log() if isinstance(entry, bytes)]
        assert len(set(said)) == len(said) == 49, "each once"
        for member in members:
            assert [text for text in said if text.startswith(member.name.encode())] == member.acknowledged, "in the sender's order"
        assert {member.views()[-1] for member in members} == {members[0].views()[-1]}

    company(story)


def test_a_newcomer_gets_as_much_of_the_past_as_it_wants(company: Any) -> None:
    """Who wants the last three messages would get the whole of last year, or a gap before its first view."""

    async def story(everybody: Any) -> None:
        ana = await everybody.join("ana")
        sent = [f"{number}".encode() for number in range(30)]
        await ana.send(*sent)
        wants = {"all": (Wants(), sent), "none": (Wants(kind="none"), []), "last": (Wants(kind="last", count=3), sent[-3:])}
        wants["more than there are"] = (Wants(kind="last", count=1000), sent)
        for name, (wanted, _) in wants.items():
            await everybody.join(name, wants=wanted)
        await ana.send(b"now")
        for member in everybody.members[1:]:
            await everybody.until(lambda member=member: b"now" in member.log())
            assert member.history == wants[member.name][1], member.name
            assert member.log().count(b"now") == 1
        agree(everybody.members)

    company(story)


def test_groups_that_are_there_and_groups_that_are_not(company: Any) -> None:
    """A mistyped name would found a group in which somebody waits for ever for the others."""

    async def story(everybody: Any) -> None:
        with pytest.raises(JoinFailed, match="no such group"):
            await everybody.join("ana", how="join")
        ana = await everybody.join("ana", how="create")
        with pytest.raises(JoinFailed, match="already"):
            await everybody.join("ben", how="create")
        with pytest.raises(JoinFailed, match="another one"):
            await (await everybody.member("cleo")).join(id=GroupId("root#0123456789abcdef"))
        dan = await everybody.join("dan", how="join")
        await everybody.until(lambda: ana.views()[-1] == dan.views()[-1])
        await asyncio.gather(ana.core.leave(), dan.core.leave())
        assert await ana.backend.records("") == [], "a group with no members is gone, and so is what they left"
        again = await everybody.join("eva", how="create")
        assert again.core.group != ana.core.group, "one of the same name is another group"
        assert again.history == []

    company(story)


def test_a_view_whose_maker_died_is_placed_by_others(company: Any) -> None:
    """A node killed between the record and the topic would leave a group that nobody can change any more, or a view nobody hears of."""

    async def story(everybody: Any) -> None:
        ana, ben = await everybody.join("ana"), await everybody.join("ben")
        await everybody.until(lambda: ana.stable and ben.stable)
        ghost = MemberId("ghost#0000000000000001")
        await Presence(ana.backend, ana.core.group, ghost).beat()
        await Register(ana.backend).change("root", lambda now: now and rules.joined(now, ghost))
        await everybody.until(lambda: all(ghost in member.views()[-1][1] for member in (ana, ben)))
        await everybody.until(lambda: int(str(ana.core.stats()["views_placed_for_others"])) > 0)

    company(story)


def test_nobody_changes_a_record_whose_view_was_not_placed(company: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The view of a maker that died would be missing for ever when the next change comes before anybody has noticed."""
    monkeypatch.setattr(keeping, "HELP_S", 1e6)

    async def story(everybody: Any) -> None:
        ana = await everybody.join("ana")
        await everybody.until(lambda: ana.stable)
        ghost = MemberId("ghost#0000000000000001")
        await Presence(ana.backend, ana.core.group, ghost).beat()
        await Register(ana.backend).change("root", lambda now: now and rules.joined(now, ghost))
        ben = await (await everybody.member("ben", settle_s=0.01)).join()
        await everybody.until(lambda: ana.views()[-1] == ben.views()[-1])
        assert [number for number, _ in ana.views()] == [1, 2, 3], "no view is missing"

    company(story)


def test_a_view_that_two_have_placed_is_told_once(company: Any) -> None:
    """Who helps would make the others believe that the group has changed once more, or gone back."""

    async def story(everybody: Any) -> None:
        ana, ben = await everybody.join("ana"), await everybody.join("ben")
        await everybody.until(lambda: ana.stable and ben.stable)
        grant = await ana.backend.register(topic_of(ana.core.group), "somebody who helps")
        late = [values.Placed(number, members) for number, members in (*ana.views(), ana.views()[0])]
        await ana.backend.publish(grant, 1, [Entry(values.encode(view)) for view in late])
        await ana.send(b"after")
        cleo = await everybody.join("cleo")
        await everybody.until(lambda: b"after" in ben.log() and b"after" in ana.log() and cleo.history == [b"after"])
        await everybody.until(lambda: len({member.views()[-1] for member in (ana, ben, cleo)}) == 1)
        agree([ana, ben, cleo])
        assert [number for number, _ in ana.views()] == [1, 2, 3]

    company(story)


def test_who_died_is_put_out_and_who_was_away_comes_in_again(company: Any) -> None:
    """A dead member would stay for ever; one whose store was out of reach for a minute would never be heard of again, or miss messages."""

    async def story(everybody: Any) -> None:
        ana, ben, cleo = [await everybody.join(name, silence_s=0.9) for name in ("ana", "ben", "cleo")]
        await ana.send(b"before")
        await everybody.until(lambda: len(ana.views()[-1][1]) == 3 and b"before" in ben.log())
        cleo.core.stop()  # as kill -9 does
        ben.backend.cut = True
        await everybody.until(lambda: ana.views()[-1][1] == (ana.core.me,), "both are put out")
        await ana.send(b"meanwhile 1", b"meanwhile 2")
        assert b"meanwhile 1" not in ben.log()
        ben.backend.cut = False
        await everybody.until(lambda: len({member.views()[-1] for member in (ana, ben)}) == 1 and len(ana.views()[-1][1]) == 2)
        await ben.send(b"after")
        await everybody.until(lambda: b"after" in ana.log() and b"after" in ben.log())
        agree([ana, ben])
        said = [entry for entry in ben.log() if isinstance(entry, bytes)]
        assert said == [b"before", b"meanwhile 1", b"meanwhile 2", b"after"]
        merge = next(event for event in reversed(ana.told) if type(event) is Installed)
        assert merge.sides == ((ana.core.me,), (ben.core.me,)), "it is told as a merge"
        assert ben.core.stats()["merges"] == 1

    company(story)


def test_a_disk_that_was_full_puts_nobody_out_for_good(company: Any) -> None:
    """Who could not beat because there was no room would never beat again, and would wait for ever to leave."""

    async def story(everybody: Any) -> None:
        ana, ben = [await everybody.join(name, silence_s=0.6) for name in ("ana", "ben")]
        await everybody.until(lambda: len(ana.views()[-1][1]) == 2)
        ben.backend.full = True
        await everybody.until(lambda: ana.views()[-1][1] == (ana.core.me,), "ben is put out")
        ben.backend.full = False
        await everybody.until(lambda: len({ana.views()[-1], ben.views()[-1]}) == 1 and len(ana.views()[-1][1]) == 2, "ben is back")
        ben.backend.full = True
        leaving = asyncio.create_task(ben.core.leave())
        await asyncio.sleep(0.1)
        assert not leaving.done()
        ben.backend.full = False
        await leaving
        assert ben.departed == "left"

    company(story)


def test_who_was_away_until_all_had_left_goes_on_with_the_group(company: Any) -> None:
    """What a member sent while it was alone would be in a group that has ended, and its views would begin anew."""

    async def story(everybody: Any) -> None:
        ana, ben = [await everybody.join(name, silence_s=0.6) for name in ("ana", "ben")]
        await everybody.until(lambda: len(ana.views()[-1][1]) == 2)
        ben.backend.cut = True
        await everybody.until(lambda: ana.views()[-1][1] == (ana.core.me,))
        await ana.send(b"the last word")
        await ana.core.leave()
        ben.backend.cut = False
        await everybody.until(lambda: ben.views()[-1][1] == (ben.core.me,) and b"the last word" in ben.log())
        numbers = [view for view, _ in ben.views()]
        assert numbers == sorted(set(numbers))
        cleo = await everybody.join("cleo")
        assert cleo.core.group == ben.core.group
        await everybody.until(lambda: cleo.history == [b"the last word"] and len({ben.views()[-1], cleo.views()[-1]}) == 1)

    company(story)


def test_who_was_away_while_another_group_took_the_name_is_told(company: Any) -> None:
    """It would be put into a group that it never joined."""

    async def story(everybody: Any) -> None:
        ana, ben = [await everybody.join(name, silence_s=0.6) for name in ("ana", "ben")]
        await everybody.until(lambda: len(ana.views()[-1][1]) == 2)
        ben.backend.cut = True
        await everybody.until(lambda: ana.views()[-1][1] == (ana.core.me,))
        await ana.core.leave()
        await everybody.join("cleo", how="create")
        ben.backend.cut = False
        await everybody.until(lambda: ben.departed is not None)
        assert "another of this name" in ben.departed

    company(story)


@pytest.mark.parametrize("seed", range(6))
def test_answers_that_are_lost_change_nothing(company: Any, seed: int) -> None:
    """A network that swallows answers would make messages twice, lose joins, or split the views."""

    async def story(everybody: Any) -> None:
        rng = random.Random(seed)
        members = [await everybody.member(f"n{number}", seed=seed * 10 + number, loss=0.15) for number in range(4)]

        async def live(member: Any) -> None:
            await asyncio.sleep(rng.uniform(0, 0.05))
            await member.join(silence_s=30.0)
            for number in range(6):
                await member.send(f"{member.name} {number}".encode())
                await asyncio.sleep(rng.uniform(0, 0.01))

        await asyncio.gather(*map(live, members))
        await members[0].core.leave()
        rest = members[1:]
        for member in rest:
            member.backend.loss = 0.0
        people = {member.core.me for member in rest}
        await everybody.until(lambda: all(set(member.views()[-1][1]) == people for member in rest), "everybody is in, and one has left")
        await rest[0].send(b"the end")
        await everybody.until(lambda: all(b"the end" in member.log() for member in rest))
        agree(rest)
        everything = [*rest[0].history, *(entry for entry in rest[0].log() if isinstance(entry, bytes))]
        assert sorted(everything) == sorted([text for member in members for text in member.acknowledged])
        assert sum(member.backend.lost for member in members) > 0

    company(story)


def test_what_is_not_in_the_store_any_more_is_an_explicit_gap() -> None:
    """A member that slept longer than messages are kept would go on as if nothing had been said."""

    async def story() -> None:
        now = 1
        backend = MemoryBackend(now=lambda: now)
        await backend.open()
        told: list[Any] = []
        core = StoreMembership(backend, "ana", rng=random.Random(1))
        await core.enter("root", how="create", options=TopicOptions(shared=True, retention_s=1.0))
        core.begin(told.append)
        while not any(type(event).__name__ == "Stabilised" for event in told):
            await asyncio.sleep(0.01)
        core.pause()
        grant = await backend.register(core.topic, "x")
        for number in range(1, 2_000):  # more than is on its way already
            await backend.publish(grant, number, [Entry(b"what is this?")])
        now += 10**10
        await backend.collect(core.topic, now)
        core.resume()
        await backend.publish(grant, 2_000, [Entry(values.encode(values.Placed(2, (core.me,))))])
        while not any(type(event) is Installed and event.view.id == 2 for event in told):
            await asyncio.sleep(0.01)
        gap = next(event for event in told if type(event).__name__ == "MissedMessages")
        assert gap.lost[core.group][1] == 2_000, "the numbers of the store, up to the last that is gone"
        assert core.stats()["gaps_told"] == 1
        core.stop()

    asyncio.run(asyncio.wait_for(story(), 60))


def test_values_that_are_none_of_the_group_disturb_nobody(company: Any) -> None:
    """Anybody who can write to the store could end every member of every group."""

    async def story(everybody: Any) -> None:
        ana = await everybody.join("ana")
        grant = await ana.backend.register(topic_of(ana.core.group), "somebody")
        rubbish = [b"", b"\x01", b"\x01\x99", b"\x02abc", b"\x01\x94\x65\x01\x90\x90", random.Random(1).randbytes(200)]
        for number, data in enumerate(rubbish, 1):
            await ana.backend.publish(grant, number, [Entry(data)])
        await ana.send(b"still here")
        await everybody.until(lambda: b"still here" in ana.log())
        assert ana.core.stats()["foreign_values"] == len(rubbish)

    company(story)


def test_silence_is_judged_by_the_time_of_the_store() -> None:
    """A member would be put out because the clock of another one, or of its machine, was an hour wrong."""

    async def story() -> None:
        now = 10**12
        backend = MemoryBackend(now=lambda: now)
        await backend.open()
        group = GroupId("root#0000000000000001")
        ana, ben = MemberId("ana#0000000000000001"), MemberId("ben#0000000000000002")
        watcher, silent = Presence(backend, group, ana), Presence(backend, group, ben)
        assert await watcher.away([ana, ben], 30.0) == (ben,), "who never beat is away, and nobody judges itself"
        await silent.beat()
        now += 30 * 10**9
        assert await watcher.away([ana, ben], 30.0) == ()
        now += 1
        assert await watcher.away([ana, ben], 30.0) == (ben,)
        await silent.beat()
        await watcher.forget([ben], 30.0)
        assert await watcher.away([ana, ben], 30.0) == (), "who beats again is not forgotten"
        now += 31 * 10**9
        await watcher.forget([ben], 30.0)
        await silent.beat()
        assert await watcher.away([ana, ben], 30.0) == (), "and who was forgotten can beat again"

    asyncio.run(asyncio.wait_for(story(), 60))
