"""Does semantic order cost the same per message when very many wait? Chains and stars of replies, small and large, interleaved.

A *chain* is one message after another, each answering the one before, arriving backwards: nothing can be delivered before the last
arrival, which releases all. A *star* is as many replies to one question, which arrives last. Both go through a whole endpoint as
frames of one message each. The small case is repeated until it has handled as many messages as the large one, so that both are
measured over the same time; large and small take turns.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator

from antiphon.model import codec
from antiphon.model.frames import Batch
from antiphon.model.ids import MessageId, new_group_id, new_member_id
from antiphon.model.options import GroupOptions
from antiphon.model.view import View
from antiphon.protocol.endpoint import Endpoint

SHAPES = ("chain", "star")
SMALL, LARGE = 1_000, 100_000


def rows(small: int = SMALL, large: int = LARGE, pairs: int = 3) -> Iterator[dict[str, object]]:
    """One row per shape: nanoseconds per message for both sizes, and their ratio, each the best of its interleaved runs."""
    for shape in SHAPES:
        best: dict[int, float] = {}
        wires = {count: backwards(shape, count) for count in (small, large)}
        for _ in range(pairs):
            for count, repeats in ((small, max(large // small, 1)), (large, 1)):
                each = sum(_receive_s(wires[count]) for _ in range(repeats)) / (repeats * count)
                best[count] = min(best.get(count, each), each)
        yield {
            "shape": shape,
            "small": small,
            "large": large,
            "small_ns_per_message": round(best[small] * 1e9),
            "large_ns_per_message": round(best[large] * 1e9),
            "ratio": round(best[large] / best[small], 2),
        }


_RNG = random.Random("bench semantic")
_LISTENER, _SPEAKER, _GROUP = new_member_id("listener", _RNG), new_member_id("speaker", _RNG), new_group_id("bench", _RNG)
_VIEW = View(1, (_LISTENER, _SPEAKER))


def backwards(shape: str, count: int) -> list[bytes]:
    """The frames of a chain or star of `count` messages, last message first."""
    parents = [None] + [MessageId(_SPEAKER, number - 1 if shape == "chain" else 1) for number in range(2, count + 1)]
    batches = (Batch.compose(_GROUP, _SPEAKER, 1, number, [b"x" * 100], [parent]) for number, parent in enumerate(parents, 1))
    return [codec.encode(batch) for batch in batches][::-1]


def listener(count: int) -> Endpoint:
    """A fresh endpoint whose window has room for all of them."""
    options = GroupOptions(order="semantic", multicast="reliable", window=max(count, 1))
    return Endpoint(_LISTENER, _GROUP, _VIEW, options, rng=random.Random(0))


def _receive_s(wires: list[bytes]) -> float:
    endpoint = listener(len(wires))
    receive = endpoint.receive
    gc.collect()
    start = time.perf_counter()
    for wire in wires:
        receive(0.0, _SPEAKER, wire)
    events = endpoint.drain(0.0).events
    seconds = time.perf_counter() - start
    assert len(events) == len(wires), f"{len(events)} of {len(wires)} messages were delivered"
    return seconds
