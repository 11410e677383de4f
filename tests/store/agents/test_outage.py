"""An agent whose server is gone for a while."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest

from antiphon.store import Store, open_store
from antiphon.testing.agent_worker import OUTPUTS, SETTINGS, dispatcher, verdict


def test_it_waits_for_its_server_and_goes_on(tmp_path: Path) -> None:
    """A restart of the server would end the dispatcher, or make it do something twice."""
    if find_spec("nats") is None:
        pytest.skip("nats-py is not installed: pip install 'antiphon[nats]'")
    from antiphon.store.jetstream import LocalServers

    async def story() -> None:
        with LocalServers(1, tmp_path) as servers:
            async with open_store(servers.url, name="north", settings=SETTINGS) as store:
                running = asyncio.create_task(store.run(dispatcher(0.005, 2.0, Random(1))))
                topic = store.topic("crash")
                for outage in range(3):
                    first = 60 * outage + 1
                    await topic.publish_many([b"%d" % number for number in range(first, first + 60)])
                    await until(store, first + 10)
                    await asyncio.to_thread(servers.kill, 0)
                    await asyncio.to_thread(servers.start, 0)
                await until(store, 180)
                assert await verdict(store, 180) == []
                assert not running.done()
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(story(), 120.0))


async def until(store: Store, position: int) -> None:
    """Waits until the agent is so far, and has said so."""
    while True:
        record = await store.reach.insist(lambda: store.backend.subscriber("crash", "agent/911"))
        lasts = {topic.name: topic.last for topic in await store.topics()}
        if record is not None and record.position >= position and all(lasts.get(output, 0) >= position for output in OUTPUTS):
            return
        await asyncio.sleep(0.02)
