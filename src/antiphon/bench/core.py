"""What the core costs: the full receive path of each order beside the bare decode of the same kind of frames.

Eight real endpoints talk; every frame that arrives at one of them is written down (batches, the sequencer's records, digests), with
the stamps and parents they really had. Then a fresh endpoint receives that tape: decode → multicast → ordering → outbox, drained once
per turn, a turn being one frame from each of the seven others. `decode` decodes the data frames of the fifo tape and nothing else.
In the semantic tape one message in two is a reply, and half of the replies arrive before the message they answer.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from antiphon.model import codec
from antiphon.model.ids import GroupId, MemberId, MessageId, new_group_id, new_member_id
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import View
from antiphon.protocol.endpoint import Endpoint
from antiphon.protocol.registry import ORDERS

BATCHES = (1, 16, 64, 256)
SIZES = (100, 1024)
_MEMBERS = 8
_TURN_S = 0.001


class Tape(NamedTuple):
    """Everything that arrived at the last member, turn by turn, and how many messages that was."""

    order: str
    turns: list[list[tuple[MemberId, bytes]]]
    messages: int

    @property
    def data(self) -> list[bytes]:
        return [wire for turn in self.turns for _, wire in turn if codec.kind_of(wire) == "data"]


def rows(quick: bool = False, progress: Callable[[str], None] | None = None) -> Iterator[dict[str, object]]:
    """One row per path, batch and size, as they are measured."""
    repeats = 3 if quick else 9
    for size in SIZES:
        for batch in BATCHES:
            tapes = [
                record(order, batch, size, max((2_000 if quick else 8_000) // batch // (_MEMBERS - 1), 12)) for order in ORDERS_MEASURED
            ]
            if progress is not None:
                progress(f"batch {batch}, {size} B")
            for tape in tapes:
                _receive_s(tape, verify=True)
            best: dict[str, float] = {}
            # Interleaved, so that a slow moment of the machine meets every path alike.
            for _ in range(repeats):
                for path, seconds in (("decode", _decode_s(tapes[1])), *((tape.order, _receive_s(tape)) for tape in tapes)):
                    best[path] = min(best.get(path, seconds), seconds)
            messages = {"decode": tapes[1].messages, **{tape.order: tape.messages for tape in tapes}}
            bare = best["decode"] / messages["decode"]
            for path, seconds in best.items():
                each = seconds / messages[path]
                yield {
                    "path": path,
                    "batch": batch,
                    "size": size,
                    "messages_per_s": round(1 / each),
                    "ratio_to_decode": round(each / bare, 2),
                }


ORDERS_MEASURED = tuple(ORDERS)


def record(order: str, batch: int, size: int, turns: int) -> Tape:
    """Lets the group talk for some turns and writes down what arrives at its last member."""
    members, group, view = _group()
    endpoints = {member: _endpoint(member, group, view, order) for member in members}
    *senders, listener = members
    payloads = [bytes([65 + number % 26]) * size for number in range(batch)]
    tape: list[list[tuple[MemberId, bytes]]] = []
    for turn in range(turns + 1):
        now = turn * _TURN_S
        arrivals: list[tuple[MemberId, bytes]] = []
        for place, sender in enumerate(members):
            endpoints[sender].tick(now)
            if sender != listener and turn < turns:
                for number, payload in enumerate(payloads):
                    parent = _parent(turn * batch + number, turn, batch, place, senders) if order == "semantic" else None
                    endpoints[sender].submit(now, payload, parent)
            for to, wire in endpoints[sender].drain(now).sends:
                for member in to or members:
                    if member != sender:
                        endpoints[member].receive(now, sender, wire)
                if sender != listener:
                    arrivals.append((sender, wire))
        # Under semantic order the last to speak is heard first, so that replies overtake what they answer.
        tape.append(arrivals[::-1] if order == "semantic" else arrivals)
    return Tape(order, tape, turns * batch * len(senders))


def _parent(number: int, turn: int, batch: int, place: int, senders: list[MemberId]) -> MessageId | None:
    """Every second message is a reply. Seven in twelve of those, none of the first speaker's, answer the speaker just before, so half
    of all replies come before what they answer; the others answer the turn before."""
    if number % 2 or not turn:
        return None
    reply = number // 2
    at = reply * 29 % batch + 1
    if place and reply * 7 % 12 < 7:
        return MessageId(senders[place - 1], turn * batch + at)
    return MessageId(senders[(place + 1) % len(senders)], (turn - 1) * batch + at)


def _group() -> tuple[list[MemberId], GroupId, View]:
    rng = random.Random("bench")
    members = [new_member_id(f"member{number}", rng) for number in range(_MEMBERS)]
    return members, new_group_id("bench", rng), View(1, tuple(members))


def _endpoint(member: MemberId, group: GroupId, view: View, order: str) -> Endpoint:
    options, settings = GroupOptions(order=order, multicast="reliable"), Settings(frame_bytes=1 << 19)
    return Endpoint(member, group, view, options, rng=random.Random(member), settings=settings)


def _decode_s(tape: Tape) -> float:
    wires, decode = tape.data, codec.decode
    gc.collect()
    start = time.perf_counter()
    for wire in wires:
        decode(wire)
    return time.perf_counter() - start


def _receive_s(tape: Tape, verify: bool = False) -> float:
    """Seconds for the whole tape. A verifying run counts what was delivered; a measuring one forgets it, as an application would."""
    members, group, view = _group()
    endpoint = _endpoint(members[-1], group, view, tape.order)
    receive, drain = endpoint.receive, endpoint.drain
    now, delivered = 0.0, 0
    gc.collect()
    start = time.perf_counter()
    for turn in tape.turns:
        for source, wire in turn:
            receive(now, source, wire)
        events = drain(now).events
        if verify:
            delivered += sum(event[2] - event[1] + 1 for event in events if type(event) is tuple)
        now += _TURN_S
    seconds = time.perf_counter() - start
    assert not verify or delivered == tape.messages, f"{tape.order}: {delivered} of {tape.messages} messages were delivered"
    return seconds
