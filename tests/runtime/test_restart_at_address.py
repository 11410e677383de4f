"""A node that starts again at its old address, while the others' connections to that address are in back-off."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon.model.ids import Address
from antiphon.runtime.node import Node
from antiphon.runtime.transports.tcp.link import State

PATIENCE_S = 60.0
_LONG_S = 3_600.0


@pytest.mark.parametrize("short_way", [True, False], ids=["unix", "tcp"])
def test_a_node_joins_again_at_its_old_address(short_way: bool) -> None:
    """A process that was killed and restarted would be refused its group, because every answer to it is dropped."""

    async def story() -> None:
        more: dict[str, Any] = {"transport": "tcp", "short_way": short_way}
        async with Node("ana", **more) as ana:
            await ana.create("trip")
            ben = Node("ben", bind="127.0.0.1:0", seeds=[ana.address], **more)
            await ben.start()
            place = ben.address
            await ben.join("trip")
            ben.abandon("killed")
            await ben._driver.close()
            link = ana._driver.transport._links[Address(place)]  # type: ignore[attr-defined]
            while link.state is not State.RESTING:
                await asyncio.sleep(0.01)
            link._stop_reopening()
            link._again_at = asyncio.get_running_loop().time() + _LONG_S
            async with Node("ben", bind=place, seeds=[ana.address], **more) as again:
                group = await again.join("trip")
                assert [member.partition("#")[0] for member in group.view.members] == ["ana", "ben"]

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))
