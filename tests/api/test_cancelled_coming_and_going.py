"""Founding, joining, leaving and closing, cancelled at every wait: the node is in the group or out of it, and goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from interruption import Interrupter, Story, at_every_wait
from talk import answer_all, members, pair, rest, well

from antiphon.model.options import Settings
from antiphon.sim.world import World


async def create(world: World, interrupt: Interrupter) -> None:
    ana, ben = world.node("ana"), world.node("ben")
    await ana.start()
    await ben.start()
    cancelled = await interrupt(ana.create("trip"))
    await asyncio.sleep(2.0)
    if cancelled:
        assert ana.groups() == []  # nobody holds a group of which its creator does not know
        group = await ana.create("trip")
    else:
        group = interrupt.result
    other = await ben.join("trip")
    await well(world, group, other)


async def _joining(world: World, interrupt: Interrupter, **choices: Any) -> None:
    ana, ben = world.node("ana"), world.node("ben")
    await ana.start()
    group = await ana.create("trip", state=lambda: b"state")
    reading = asyncio.create_task(answer_all(group, []))
    await group.send(b"before")
    await ben.start()
    if choices.pop("known", False):
        await anext(ben.discovered())
    cancelled = await interrupt(ben.join("trip", **choices))
    if cancelled:
        await asyncio.sleep(1.0)
        await members(group, 1)
        assert not ben.core.memberships
        other = await ben.join("trip", **choices)
    else:
        other = interrupt.result
    await members(group, 2)
    assert other.view.members[-1] == other.me
    reading.cancel()
    await well(world, group, other)


async def join_what_is_known(world: World, interrupt: Interrupter) -> None:
    await _joining(world, interrupt, known=True)


async def join_by_name(world: World, interrupt: Interrupter) -> None:
    await _joining(world, interrupt)


async def join_at_an_address(world: World, interrupt: Interrupter) -> None:
    await _joining(world, interrupt, at=["ana"])


async def join_for_the_state(world: World, interrupt: Interrupter) -> None:
    await _joining(world, interrupt, history="state")


async def join_or_create(world: World, interrupt: Interrupter) -> None:
    ana = world.node("ana")
    await ana.start()
    if await interrupt(ana.join("trip", create=True, order="total")):
        await asyncio.sleep(2.0)
        assert not ana.core.memberships
        group = await ana.join("trip", create=True, order="total")
    else:
        group = interrupt.result
    await well(world, group)


async def leave(world: World, interrupt: Interrupter) -> None:
    ana, ben = await pair(world)
    await ben.send(b"last words")
    await interrupt(ben.leave())
    await members(ana, 1)  # cancelled or not, it leaves
    assert await ben.leave() == 0
    assert await rest(ana) == [b"last words"]
    await ana.send(b"alone")
    again = await ben._node.join("trip")
    await members(ana, 2)
    await well(world, ana, again)


async def close(world: World, interrupt: Interrupter) -> None:
    ana, ben = await pair(world)
    await ben.send(b"last words")
    await interrupt(ben._node.close())
    await ben._node.close()
    assert not world.alive("ben")
    await members(ana, 1)
    assert [message.data async for message in ben] == [b"last words"]
    async with world.node("ben") as node:
        again = await node.join("trip")
        await members(ana, 2)
        await well(world, ana, again)


STORIES: dict[str, tuple[Story, int]] = {
    "create": (create, 1),
    "join_what_is_known": (join_what_is_known, 1),
    "join_by_name": (join_by_name, 2),
    "join_at_an_address": (join_at_an_address, 2),
    "join_for_the_state": (join_for_the_state, 2),
    "join_or_create": (join_or_create, 1),
    "leave": (leave, 1),
    "close": (close, 1),
}
"""Every call, and how many waits it makes at least: fewer would mean that nothing was cancelled."""


@pytest.mark.parametrize("late", [False, True], ids=["waiting", "woken"])
@pytest.mark.parametrize("name", STORIES)
def test_a_call_may_be_cancelled_at_any_time(name: str, late: bool, quick: Settings) -> None:
    """A time-out around a join or a leave would leave a half-joined group behind, or break the node."""
    at_every_wait(name, *STORIES[name], late, quick)


def test_a_join_is_given_up_at_the_moment_when_the_group_is_founded(quick: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node would be in a group that the program does not have, and could neither join it nor leave it."""

    def join(cancelled_at: int) -> int:
        """Which frame tells the node that it may found the group; the join is cancelled just before frame `cancelled_at` is taken."""
        world = World(seed=7, settings=quick)
        frames, telling = 0, 0

        async def story() -> None:
            ana, ben = world.node("ana"), world.node("ben")
            receive = ben._receive

            def watch(*arguments: Any) -> None:
                nonlocal frames, telling
                frames += 1
                if frames == cancelled_at:
                    joining.cancel()
                receive(*arguments)
                if ben.core.memberships and not telling:
                    telling = frames

            monkeypatch.setattr(ben, "_receive", watch)
            await ana.start()
            await ben.start()
            joining = asyncio.create_task(ben.join("trip", create=True, at=["ana"]))  # ana will answer that it knows no such group
            await asyncio.wait([joining])
            if cancelled_at:
                assert joining.cancelled()
                await asyncio.sleep(5.0)
                assert not ben.core.memberships
                await well(world, await ben.join("trip", create=True, at=["ana"]))

        world.run(story())
        return telling

    telling = join(0)
    assert telling > 0
    assert join(telling) == telling
