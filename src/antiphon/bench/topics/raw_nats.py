"""The same on JetStream with bare nats-py, on the same servers: they sync every write before they acknowledge it.

A batch is published as that many messages whose acknowledgements are awaited together; it is read with a pull consumer of which the last
message is acknowledged, which acknowledges all before it, and the server's word is waited for.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qs, urlsplit

_PATIENCE_S = 60.0


class RawNats:
    def __init__(self, url: str, name: str, size: int) -> None:
        parts = urlsplit(url)
        self._servers = [f"nats://{host}" for host in parts.netloc.split(",")]
        self._replicas = int(parse_qs(parts.query).get("replicas", ["1"])[0])
        self._name, self._value = name, bytes(size)
        self._reader: Any = None

    async def open(self) -> None:
        import nats
        from nats.js.api import StorageType

        self._client = await nats.connect(self._servers)
        self._stream = self._client.jetstream(timeout=_PATIENCE_S)
        await self._stream.add_stream(
            name=self._name, subjects=[f"{self._name}.v"], storage=StorageType.FILE, num_replicas=self._replicas
        )

    async def close(self) -> None:
        await self._client.close()

    async def publish(self, batch: int) -> None:
        subject, value, publish = f"{self._name}.v", self._value, self._stream.publish
        if batch == 1:
            await publish(subject, value)
        else:
            await asyncio.gather(*(publish(subject, value) for _ in range(batch)))

    async def rewind(self) -> None:
        from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

        if self._reader is not None:
            await self._reader.unsubscribe()
            await self._stream.delete_consumer(self._name, "bench")
        config = ConsumerConfig(ack_policy=AckPolicy.ALL, deliver_policy=DeliverPolicy.ALL, max_ack_pending=100_000)
        self._reader = await self._stream.pull_subscribe(f"{self._name}.v", durable="bench", stream=self._name, config=config)

    async def read(self, batch: int) -> int:
        import nats

        try:
            messages = await self._reader.fetch(batch, timeout=0.2)
        except (nats.errors.TimeoutError, TimeoutError):
            return 0
        await messages[-1].ack_sync(timeout=_PATIENCE_S)
        return len(messages)
