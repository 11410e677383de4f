"""One node asks another which groups it knows, on real sockets; with and without await."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import antiphon
import antiphon.sync
from antiphon.errors import AskRefused, InvalidOption, TimedOut, UsageError
from antiphon.model.ids import name_of
from antiphon.testing import QUICK

TRANSPORTS: list[dict[str, Any]] = [
    {"transport": "udp", "bind": "127.0.0.1:0", "multicast": None, "settings": QUICK},
    {"transport": "tcp", "bind": "127.0.0.1:0", "settings": QUICK},
]
BOTH = pytest.mark.parametrize("options", TRANSPORTS, ids=["udp", "tcp"])


@BOTH
async def test_a_node_tells_the_groups_that_it_is_in_and_has_heard_of(options: dict[str, Any]) -> None:
    """Where broadcasts do not reach, only `antiphon doctor` could find out which groups there are."""
    async with (
        antiphon.Node("ana", **options) as ana,
        antiphon.Node("ben", seeds=[ana.address], **options) as ben,
        antiphon.Node("cleo", **options) as cleo,
    ):
        own = await ben.create("ben's")
        theirs = await ana.create("ana's")
        heard = ben.discovered()
        assert (await anext(heard)).id == theirs.id
        infos = await cleo.ask_groups(ben.address)
        assert {info.id for info in infos} == {own.id, theirs.id}
        assert all(isinstance(info, antiphon.GroupInfo) for info in infos)
        assert {info.id for info in cleo.groups()} == {own.id, theirs.id}
        joined = await cleo.join(theirs.id)
        assert name_of(joined.me) in [name_of(member) for member in joined.view.members]
        assert {info.id for info in await cleo.ask_groups(cleo.address)} == {own.id, theirs.id}


@BOTH
async def test_a_node_that_is_no_name_server_refuses_at_once(options: dict[str, Any]) -> None:
    """Who asks a node that does not want to be asked would wait for the time-out, and not know why."""
    patient = {**options, "settings": antiphon.Settings(question_s=50.0)}
    async with antiphon.Node("ana", name_server=False, **options) as ana, antiphon.Node("ben", **patient) as ben:
        await ana.create("trip")
        for _ in range(3):
            with pytest.raises(AskRefused, match="name_server=False"):
                await ben.ask_groups(ana.address)


@BOTH
async def test_many_questions_to_one_node_at_once_are_all_answered(options: dict[str, Any]) -> None:
    """The fifth would time out, although the node answers."""
    async with antiphon.Node("ana", **options) as ana, antiphon.Node("ben", **options) as ben:
        there = await ana.create("trip")
        impatient = asyncio.create_task(ben.ask_groups(ana.address, timeout=0.0))
        answers = await asyncio.gather(*(ben.ask_groups(ana.address) for _ in range(20)))
        assert [[info.id for info in infos] for infos in answers] == [[there.id]] * 20
        with pytest.raises(TimedOut):
            await impatient
        assert [info.id for info in await ben.ask_groups(ana.address)] == [there.id]


@BOTH
async def test_an_address_where_no_node_is_times_out(options: dict[str, Any]) -> None:
    """A mistyped address would be waited for without an end."""
    async with antiphon.Node("ana", **options) as ana:
        with pytest.raises(TimedOut, match=r"127\.0\.0\.1:9"):
            await ana.ask_groups("127.0.0.1:9")
        with pytest.raises(TimedOut, match=r"within 0\.05 s"):
            await ana.ask_groups("127.0.0.1:9", timeout=0.05)
        for wrong in ("", 5, None):
            with pytest.raises(InvalidOption, match="address"):
                await ana.ask_groups(wrong)  # type: ignore[arg-type]
        asking = asyncio.create_task(ana.ask_groups("127.0.0.1:9"))
        await asyncio.sleep(0)
        ana.abandon("the test is over")
        with pytest.raises(UsageError, match="not answered"):
            await asking


@BOTH
async def test_the_end_of_a_group_is_told(options: dict[str, Any]) -> None:
    """A list of groups on a screen would only ever grow."""
    async with antiphon.Node("ana", **options) as ana, antiphon.Node("ben", seeds=[ana.address], **options) as ben:
        ended = ben.vanished()
        group = await ana.create("trip")
        assert (await anext(ben.discovered())).id == group.id
        await group.leave()
        info = await anext(ended)
        assert (info.id, info.options) == (group.id, group.options)
        assert ben.groups() == []


@BOTH
def test_the_same_without_await(options: dict[str, Any]) -> None:
    """A program without async could not ask, or not hear of an end."""
    with antiphon.sync.Node("ana", **options) as ana, antiphon.sync.Node("ben", seeds=[ana.address], **options) as ben:
        ended = ben.vanished()
        group = ana.create("trip")
        assert [info.id for info in ben.ask_groups(ana.address)] == [group.id]
        group.leave()
        assert ended.receive(timeout=20.0).id == group.id
        with antiphon.sync.Node("cleo", name_server=False, **options) as cleo, pytest.raises(AskRefused):
            ben.ask_groups(cleo.address)


@pytest.mark.parametrize("transport", ["udp", "tcp", "memory"])
def test_one_seed_that_is_no_list_is_refused(transport: str) -> None:
    """A string would be read letter by letter, and the error would name a letter."""
    for kind in (antiphon.Node, antiphon.sync.Node):
        with pytest.raises(InvalidOption, match="give a list"):
            kind("ana", transport=transport, seeds="127.0.0.1:4040")
        for wrong in (b"127.0.0.1:4040", 4040, None, [4040], [b"127.0.0.1:4040"], [("127.0.0.1", 4040)]):
            with pytest.raises(InvalidOption, match="give a list"):
                kind("ana", transport=transport, seeds=wrong)


async def test_one_address_to_join_at_that_is_no_list_is_refused() -> None:
    """A join would ask the nodes at `1`, `2` and `7`."""
    async with antiphon.Node("ana", transport="memory") as ana:
        with pytest.raises(InvalidOption, match="give a list"):
            await ana.join("trip", at="127.0.0.1:4040")
