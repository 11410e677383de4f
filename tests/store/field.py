"""A node in the field, for tests: `field.py URL OUTBOX JOURNAL COUNT` publishes its values 1 … COUNT and ends when the store has them all.

It may be killed at any point and started again. What was acknowledged, and how, it appends to its journal, a line each; what was not it
publishes again under the same number.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from antiphon.store import StoreSettings, open_store

SETTINGS = StoreSettings(timeout_s=5.0, retry_s=0.01, retry_max_s=0.1, outbox_s=0.05, collect_s=0)
PAUSE_S = 0.005


def acknowledged(journal: Path) -> list[tuple[int, str]]:
    """The numbers that were acknowledged, with the type of the acknowledgement; of a line that a kill has torn nothing."""
    lines = journal.read_text().split("\n")[:-1] if journal.exists() else []
    return [(int(number), kind) for number, kind in map(str.split, filter(None, lines))]


async def main(url: str, outbox: str, journal: str, count: str) -> None:
    newest = max((number for number, _ in acknowledged(Path(journal))), default=0)
    file = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(file, b"\n")
    async with open_store(url, name="field", outbox=outbox, settings=SETTINGS) as store:
        crash = store.topic("crash")
        for number in range(newest + 1, int(count) + 1):
            ack = await crash.publish(b"%d" % number, number=number)
            os.write(file, f"{number} {type(ack).__name__}\n".encode())
            await asyncio.sleep(PAUSE_S)
        while store.waiting_in_outbox("crash"):
            await asyncio.sleep(0.02)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
