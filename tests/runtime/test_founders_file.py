"""What a node remembers of its groups' founders across restarts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import BadFile, InvalidOption, TimedOut
from antiphon.model.ids import GroupId
from antiphon.model.options import GroupOptions, Settings
from antiphon.runtime.founders_file import BYTES_LIMIT, GROUPS_LIMIT, FoundersFile
from antiphon.runtime.node import Node

LOG: dict[str, Any] = {"order": "total", "partitions": "majority", "delivery": "safe"}
OPTIONS = GroupOptions(**LOG, expect=("ana", "ben"))


def written(directory: Path) -> FoundersFile:
    file = FoundersFile(directory, "ana")
    file.open()
    assert file.remember("log", GroupId("log#0000000000000000"), OPTIONS, ("ana", "ben"))
    return file


def test_a_restarted_node_needs_no_founders_and_returns(tmp_path: Path) -> None:
    """After a restart the program would be refused, or would have to be configured with what it knew already."""
    settings = Settings(answer_s=0.05, retry_s=0.1)

    async def story() -> None:
        nodes = [Node(name, transport="memory", settings=settings, directory=tmp_path / "state") for name in ("ana", "ben", "cem")]
        for node in nodes:
            await node.start()
        ana, ben, cem = nodes
        groups = await asyncio.gather(*(node.join("log", create=True, expect=3, timeout=30.0, **LOG) for node in nodes))
        ana.abandon("killed")
        await ana._driver.close()
        async with Node("ana", transport="memory", settings=settings, directory=tmp_path / "state") as again:
            with pytest.raises(InvalidOption, match=r"with expect=3: write that, or remove .*ana\.founders\.json"):
                await again.join("log", create=True, expect=4, **LOG)
            with pytest.raises(InvalidOption, match="with order='total'"):
                await again.join("log", create=True, order="fifo")
            back = await again.join("log", create=True, timeout=30.0)
            assert back.id == groups[1].id
            assert {member.partition("#")[0] for member in back.view.members} >= {"ana", "ben", "cem"}
        await ben.close()
        await cem.close()

    asyncio.run(story())
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == [f"{name}.founders.json" for name in ("ana", "ben", "cem")]


def test_founders_that_were_a_minority_do_not_found_it_again(tmp_path: Path) -> None:
    """All founders restart where the other members do not reach them: there would be two groups, and both would go on."""
    settings = Settings(answer_s=0.05, retry_s=0.1)
    common: dict[str, Any] = {"transport": "memory", "settings": settings, "directory": tmp_path / "state"}

    async def story() -> None:
        nodes = [Node(name, **common) for name in ("ana", "ben", "cem", "dee", "eve")]
        for node in nodes:
            await node.start()
        founders = [node.join("log", create=True, expect=["ana", "ben"], timeout=30.0, **LOG) for node in nodes[:2]]
        ana, _ = await asyncio.gather(*founders)
        for node in nodes[2:]:
            await node.join("log", timeout=30.0)
        async with asyncio.timeout(30.0):
            while len(ana.view.members) < len(nodes):
                await asyncio.sleep(0.05)
        for node in nodes:
            node.abandon("killed")
            await node._driver.close()
        async with Node("ana", **common) as one, Node("ben", **common) as two:
            for outcome in await asyncio.gather(
                *(node.join("log", create=True, timeout=3.0) for node in (one, two)), return_exceptions=True
            ):
                assert isinstance(outcome, TimedOut)
                assert "others were most of its members (cem, dee, eve) and may go on with it" in str(outcome)
        for path in (tmp_path / "state").iterdir():
            path.unlink()
        async with Node("ana", **common) as one, Node("ben", **common) as two:
            founders = [node.join("log", create=True, expect=["ana", "ben"], timeout=30.0, **LOG) for node in (one, two)]
            for group in await asyncio.gather(*founders):
                assert len(group.view.members) == 2

    asyncio.run(story())


def test_what_is_left_out_is_remembered(tmp_path: Path) -> None:
    """A program that leaves out what it said once would found another group than it was in."""
    written(tmp_path)
    file = FoundersFile(tmp_path, "ana")
    file.open()
    assert file.complete("log", {})["expect"] == ("ana", "ben")
    assert file.complete("log", {"order": "total", "expect": ["ben", "ana"]})["delivery"] == "safe"
    assert file.complete("other", {"order": "fifo"}) == {"order": "fifo"}
    with pytest.raises(InvalidOption, match="partitions"):
        file.complete("log", {"partitions": "continue"})


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "damaged"),
        (b"{", "damaged"),
        (b"\xff", "damaged"),
        (b'{"version": 1, "groups": {"log": {"id": "log#0"}}}', "damaged"),
        (b'{"version": 1, "groups": {"log": {"id": "log#0", "options": {"partitions": "maybe"}}}}', "damaged"),
        (b'{"version": 2, "groups": {}}', "of version 2"),
        (b" " * (BYTES_LIMIT + 1), "more than"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes, why: str) -> None:
    """The node would start as if it had never been in a group, or die with a traceback."""
    path = FoundersFile(tmp_path, "ana").path
    path.write_bytes(content)

    async def story() -> None:
        with pytest.raises(BadFile, match=why) as raised:
            await Node("ana", transport="memory", directory=tmp_path).start()
        assert str(path) in str(raised.value)
        assert "remove it and give expect= again" in str(raised.value)

    asyncio.run(story())
    assert path.read_bytes() == content


def test_a_directory_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
    """The node would find out when it is in the group, and forget it."""
    (tmp_path / "file").write_text("")
    with pytest.raises(BadFile, match="give the node another directory"):
        FoundersFile(tmp_path / "file", "ana").open()


def test_names_of_nodes_are_no_paths(tmp_path: Path) -> None:
    """A node's name would write a file somewhere else."""
    file = FoundersFile(tmp_path, "../ana/b")
    file.open()
    assert file.path.parent == tmp_path
    assert file.path.exists()


def test_it_is_bounded(tmp_path: Path) -> None:
    """A program that makes up group names would fill the disk, and then be refused its own file."""
    file = FoundersFile(tmp_path, "ana")
    file.open()
    file._groups = {f"g{number}": written(tmp_path)._groups["log"] for number in range(1)} | {
        f"h{number}": written(tmp_path)._groups["log"] for number in range(GROUPS_LIMIT - 1)
    }
    assert file.remember("log", GroupId("log#0000000000000000"), OPTIONS, ("ana", "ben"))
    assert len(json.loads(file.path.read_bytes())["groups"]) == GROUPS_LIMIT
    assert "g0" not in file._groups
    again = FoundersFile(tmp_path, "ana")
    again.open()
    assert again._groups == file._groups
    crowd = tuple(f"{number:064}" for number in range(4_096))
    for number in range(2 * BYTES_LIMIT // len(str(crowd)) + 1):
        assert file.remember(f"crowd{number}", GroupId("log#0000000000000000"), OPTIONS, crowd)
    again.open()
    assert again._groups == file._groups
    assert "crowd0" not in file._groups
