"""A member of a group on a store, as a process that can be killed: it talks, and writes down what it was promised and what it was told.

    python store_member.py STORE NAME JOURNAL

The journal has one line per fact: `ack TEXT` once the store has acknowledged it, `view NUMBER MEMBERS` and `said TEXT` as they are told. It
ends when somebody says `end`.
"""

from __future__ import annotations

import asyncio
import os
import sys

import antiphon
from antiphon.api import Group, Message, MessageBatch, ViewChange
from antiphon.errors import AntiphonError


async def main(url: str, name: str, path: str) -> None:
    journal = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(*words: str) -> None:
        os.write(journal, (" ".join(words) + "\n").encode())  # a kill does not take back what was written

    async def talk(group: Group) -> None:
        number = 0
        while True:
            number += 1
            text = f"{group.me}/{number}"
            try:
                await group.send(text.encode())
            except AntiphonError as error:
                note("refused", text, str(error))
            else:
                note("ack", text)
            await asyncio.sleep(0.002)

    async with antiphon.Node(name, transport="memory", store=url) as node:
        group = await node.join("root", on="store", create=True, history="none", silence_s=1.0)
        talking = asyncio.create_task(talk(group))
        async for event in group.events():
            if isinstance(event, ViewChange):
                note("view", str(event.view.id), *event.view.members)
            elif isinstance(event, MessageBatch):
                for message in event:
                    assert isinstance(message, Message)
                    note("said", message.data.decode())
                    if message.data == b"hush":
                        talking.cancel()
                    if message.data == b"end":
                        return


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
