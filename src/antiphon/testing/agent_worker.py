"""An agent in a process of its own, for tests that kill it: `python -m antiphon.testing.agent_worker URL NODE SILENCE_S PAUSE_S`.

Its function says something else each time that it is asked: for every value it draws a number, tells it to both outputs, and chains it
into its state. So whatever is left of a step that was made twice, or by halves, can be seen afterwards (`verdict`).
"""

from __future__ import annotations

import asyncio
import os
import sys
from random import Random
from zlib import crc32

import msgspec

from antiphon.store import Store, StoreSettings, Value, open_store
from antiphon.store.agents import Agent, Outcome
from antiphon.store.agents.deciding import Decision

OUTPUTS = ("cops", "ambulance")
SETTINGS = StoreSettings(timeout_s=20.0, retry_max_s=0.2, watch_s=0.2, collect_s=0)


class State(msgspec.Struct):
    values: int = 0
    chain: int = 0


class Order(msgspec.Struct, frozen=True):
    """What the agent says about a value."""

    number: int
    drawn: int


def chained(chain: int, order: Order) -> int:
    return crc32(f"{order.number}:{order.drawn}".encode(), chain)


def dispatcher(pause_s: float, silence_s: float, chance: Random) -> Agent:
    """`pause_s` is how long it takes for a value at most, `chance` where it draws from."""

    async def dispatch(value: Value, state: State) -> Outcome:
        if pause_s:
            await asyncio.sleep(pause_s * chance.random())
        order = Order(int(value.data), chance.getrandbits(40))
        return State(state.values + 1, chained(state.chain, order)), [(output, order) for output in OUTPUTS]

    return Agent("911", "crash", dispatch, dict.fromkeys(OUTPUTS, Order), state=State(), silence_s=silence_s)


async def verdict(store: Store, count: int) -> list[str]:
    """What is wrong, after `count` values: nothing, when each was one step."""
    wrong = []
    told = {}
    for output in OUTPUTS:
        topic = store.topic(output, type=Order)
        last = (await topic.info()).last
        found = [await topic.at(seq) for seq in range(1, last + 1)]
        told[output] = [value.data for value in found if isinstance(value, Value)]
        if [order.number for order in told[output]] != list(range(1, count + 1)):
            wrong.append(f"{output} was told of {[order.number for order in told[output]]}")
    if told["cops"] != told["ambulance"]:
        wrong.append("the cops and the ambulance were told different things")
    record = await store.backend.subscriber("crash", "agent/911")
    state = State()
    if record is not None and record.state:
        state = msgspec.msgpack.decode(msgspec.msgpack.decode(record.state, type=Decision).state, type=State)
    chain = 0
    for order in told["cops"]:
        chain = chained(chain, order)
    if (state.values, state.chain) != (count, chain):
        wrong.append(f"the state has counted {state.values} values, of which the outputs tell something else")
    return wrong


async def main(url: str, node: str, silence_s: str, pause_s: str) -> None:
    async with open_store(url, name=node, settings=SETTINGS) as store:
        await store.run(dispatcher(float(pause_s), float(silence_s), Random(f"{node}/{os.getpid()}")))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
