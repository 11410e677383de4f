"""What is shown at which row, while lines come in any order and by any number."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from antiphon.apps.chat.conversation import Conversation
from antiphon.apps.chat.entries import Entry, Line, Placement
from antiphon.apps.chat.layout import Layout
from antiphon.model.ids import MemberId, MessageId

ANA, BEN = MemberId("ana#0000000000000001"), MemberId("ben#0000000000000002")


def height_of(entry: Entry) -> int:
    return len(entry.text) % 3 + 1


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.integers(0, 10_000), st.sampled_from((12, 1_000)))
def test_the_rows_are_those_of_the_conversation(parents: list[int], seed: int, limit: int) -> None:
    """Lines that come together, or before what they answer, would be shown twice, in the wrong place, or not at all."""
    rng = random.Random(seed)
    lines = [
        Line(
            MessageId(BEN, number),
            "x" * rng.randrange(5),
            float(rng.choice((number, 7))),
            answers=None if parent == 0 or parent >= number else MessageId(BEN, parent),
        )
        for number, parent in enumerate(parents, 1)
    ]
    if rng.random() < 0.7:
        rng.shuffle(lines)
    conversation = Conversation(ANA, limit)
    layout = Layout(conversation, height_of)
    layout.begin()
    while lines:
        together: list[Placement] = []
        for _ in range(rng.randint(1, 6)):
            if lines:
                placement = conversation.add(lines.pop())
                assert placement is not None
                together.append(placement)
            elif rng.random() < 0.5:
                together.append(conversation.note("something happened", "came", float(rng.randrange(50))))
        window = rng.randint(0, layout.height)
        seen = layout.at(window)
        moved = layout.take(together, window)
        shown = list(conversation.entries())
        assert list(layout) == ([layout.top] if conversation.forgotten else []) + shown
        if seen is not None and not any(placement.everything for placement in together) and not _moved(seen[0], together):
            assert layout.at(window + moved) == seen, "what the reader looks at has stayed under the eyes"
        threads: list[Any] = [thread for thread in conversation.threads if isinstance(thread, Line) and thread.children]
        if threads and rng.random() < 0.3:
            thread = rng.choice(threads)
            layout.fold(thread, not thread.folded)


def _moved(entry: Entry, placements: list[Placement]) -> bool:
    """Whether an entry has gone to another place itself."""
    adopted = {line for placement in placements for line in placement.adopted}
    while isinstance(entry, Line):
        if entry in adopted:
            return True
        if entry.parent is None:
            return False
        entry = entry.parent
    return False
