"""What another process does with a store, for tests: `program.py publish FILE TOPIC PUBLISHER BATCH COUNT [relaxed]` and so on.

It says each thing that was acknowledged in one write to its standard output, at once, so that what it has said was acknowledged whatever
becomes of it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401 - asyncio would import it later, when this process may not any more
import os
import sys

from antiphon.errors import AntiphonError
from antiphon.store.records import SECOND, Entry
from antiphon.store.sqlite import SqliteBackend


def say(text: object) -> None:
    os.write(1, f"{text}\n".encode())


async def publish(store: SqliteBackend, topic: str, publisher: str, batch: str, count: str, durability: str = "synced") -> None:
    """Publishes batches of values that say their own numbers; says the newest own number after each acknowledgement."""
    grant = await store.register(topic, publisher, takeover=True)
    say("ready")
    number = grant.number + 1
    for _ in range(int(count)):
        entries = [Entry(b"%s/%d" % (publisher.encode(), number + k)) for k in range(int(batch))]
        await store.publish(grant, number, entries, synced=durability == "synced")
        number += len(entries)
        say(number - 1)


async def time(store: SqliteBackend) -> None:
    say(await store.time())


async def take(store: SqliteBackend, topic: str) -> None:
    """Says `ready`, and then the first value it gets."""
    await store.subscribe(topic, "taker", 3600 * SECOND)
    reader = await store.reader(topic, 0)
    say("ready")
    chunk = await reader.take(1, 50.0)
    say(chunk.values[0].data.decode() if chunk.values else "nothing")


async def listen(store: SqliteBackend, topic: str) -> None:
    """Waits for values for ever."""
    reader = await store.reader(topic, 0)
    say("ready")
    while True:
        await reader.take(1_000, 1.0)


async def main(verb: str, file: str, *arguments: str) -> None:
    if user := os.environ.get("BECOME"):  # only now: this user may not even be allowed to run the interpreter
        os.setgroups([])
        os.setresgid(int(user), int(user), int(user))
        os.setresuid(int(user), int(user), int(user))
    store = SqliteBackend(file)
    try:
        await store.open()
        try:
            await {"publish": publish, "time": time, "take": take, "listen": listen}[verb](store, *arguments)
        finally:
            await store.close()
    except AntiphonError as error:
        say(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
