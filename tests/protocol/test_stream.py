"""What a stream keeps for repairs, against what a plain list of frames says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon.model.ids import MemberId
from antiphon.protocol.multicast.stream import Stream

ONE = st.tuples(st.integers(0, 6), st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=1))
SEVERAL = st.tuples(st.just(0), st.lists(st.binary(min_size=1, max_size=9), min_size=2, max_size=3))
FRAMES = st.dictionaries(st.integers(1, 20), st.one_of(ONE, ONE, SEVERAL), min_size=4, max_size=20)
"""First number to how many more messages there are, and the frames: several only of one message. They may overlap, as only a member that
breaks the rules can make them."""


@given(FRAMES, st.permutations(range(1, 21)), st.lists(st.integers(0, 24), min_size=1, max_size=5))
def test_what_is_kept_is_what_may_still_be_asked_for(
    frames: dict[int, tuple[int, list[bytes]]], order: list[int], stables: list[int]
) -> None:
    """A frame that was forgotten too early could never be repaired; one that is kept for ever would fill the memory, and bytes that are
    counted wrongly would stop a sender or let it go on without end."""
    stream, kept = Stream(0, MemberId("ana")), dict[int, tuple[int, tuple[bytes, ...]]]()
    for first in order:
        if first in frames:
            more, wires = frames[first]
            last = first + more
            stream.keep(first, last, wires)
            kept[first] = (last, tuple(wires))
    for stable in sorted(stables):
        stream.forget(stable)
        for first in sorted(kept):
            if kept[first][0] > stable:
                break
            del kept[first]
        assert stream.bytes == sum(len(wire) for _, wires in kept.values() for wire in wires)
        assert {first: stream.kept(first) for first in range(1, 21) if stream.kept(first)} == {first: kept[first][1] for first in kept}
        assert sorted(stream.frames) == sorted(stream.firsts) == sorted(kept)
        assert set(stream.rests) | set(stream.lasts) <= set(kept)
    for low in range(1, 21, 4):
        expected = [(first, wires) for first, (last, wires) in sorted(kept.items()) if first <= low + 3 and last >= low]
        found = list(stream.covering(low, low + 3))
        assert [each for each in found if each in expected] == found
        assert {first for first, _ in expected if first >= low} <= {first for first, _ in found}
