"""What each process of the story does, until it is ended: `python -m antiphon.apps.emergency ROLE STORE`.

What it says is one line of JSON each (`Line`). The person reads crashes from its standard input, in JSON, one per line.
"""

from __future__ import annotations

import asyncio
import sys

import msgspec
from msgspec import Struct

from antiphon.apps.emergency.scene import SERVICES, Crash, Dispatch, hotline
from antiphon.store import Gap, Store, StoreSettings, open_store

SILENCE_S = 1.0
_SETTINGS = StoreSettings(watch_s=0.5, node_timeout_s=10.0)


class Line(Struct, frozen=True, omit_defaults=True):
    what: str
    """`ready`, `reported`, `read` or `missing`."""
    call: int = 0
    text: str = ""


def say(what: str, call: int = 0, text: str = "") -> None:
    print(msgspec.json.encode(Line(what, call, text)).decode(), flush=True)


async def person(store: Store) -> None:
    """Reports what is told to it."""
    crash = store.topic("crash", type=Crash)
    await crash.register()
    say("ready")
    while line := await asyncio.to_thread(sys.stdin.readline):
        reported = msgspec.json.decode(line, type=Crash)
        said = await crash.publish(reported)
        say("reported", text=f"a crash at {reported.place} ({type(said).__name__.lower()})")


async def station(store: Store) -> None:
    """A machine of 911: it runs the agent, or waits to."""
    say("ready")
    await store.run(hotline(SILENCE_S))


async def service(store: Store, name: str) -> None:
    """Reads only its own topic, and goes on where it was when it comes back."""
    subscription = await store.topic(name, type=Dispatch).subscribe(lease=86_400.0, id=f"the {name}")
    served = int(subscription.state or b"0")
    say("ready", text=f"has served {served} so far")
    async for item in subscription:
        if isinstance(item, Gap):
            say("missing", text=f"{item.first} … {item.last} are {item.why}")
            continue
        order: Dispatch = item.data
        served += 1
        await subscription.done(item.seq, b"%d" % served)
        # Only now: said before, it would be said again by the next life when this one is killed in between.
        say("read", order.call, f"{order.order} at {order.place}")


async def play(role: str, url: str) -> None:
    async with open_store(url, name=role, settings=_SETTINGS) as store:
        if role == "person":
            await person(store)
        elif role in SERVICES:
            await service(store, role)
        else:
            await station(store)
