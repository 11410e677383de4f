"""What the bytes of a datagram mean."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import BadFrame
from antiphon.runtime.transports.udp import datagram as d

LIMITS = st.integers(d.DATAGRAM_MINIMUM, 1_500)
WIRES = st.one_of(st.binary(max_size=4_000), st.binary(max_size=20).map(lambda tail: bytes([d.MARK]) + tail))


@given(wire=WIRES, limit=LIMITS, audience=st.integers(0, 2**32 - 1))
def test_a_wire_comes_out_as_it_went_in(wire: bytes, limit: int, audience: int) -> None:
    """Frames would arrive damaged, or datagrams would be too large for the link and vanish."""
    datagrams = d.write(wire, limit, audience, 7)
    assert all(len(datagram) <= limit for datagram in datagrams)
    if len(datagrams) > 1:
        parts = [d.read(datagram) for datagram in datagrams]
        assert all(isinstance(part, d.Part) and (part.audience, part.wire_id, part.count) == (audience, 7, len(parts)) for part in parts)
        assert b"".join(part.body for part in parts if isinstance(part, d.Part)) == wire
    elif audience:
        assert d.read(datagrams[0]) == d.Addressed(audience, wire)
    elif wire and wire[0] != d.MARK:
        assert datagrams[0] is wire, "a wire that fits costs nothing"
    else:
        assert d.read(datagrams[0]) == d.Whole(wire)


@given(members=st.lists(st.binary(min_size=6, max_size=6), min_size=1, max_size=600), limit=LIMITS)
def test_a_roll_call_names_everybody_however_many_they_are(members: list[bytes], limit: int) -> None:
    """In a large group those at the end of the list would never be asked, and would get their own copies for ever."""
    calls = [d.read(call) for call in d.roll_calls(9, members, limit)]
    assert [endpoint for call in calls if isinstance(call, d.RollCall) for endpoint in call.endpoints] == members
    assert d.read(d.present(9)) == d.Present(9)


@given(junk=st.one_of(st.binary(max_size=64), st.binary(max_size=64).map(lambda tail: bytes([d.MARK]) + tail)))
def test_junk_is_refused_by_name(junk: bytes) -> None:
    """A stray or hostile datagram would raise into the event loop."""
    with suppress(BadFrame):
        assert isinstance(d.read(junk), d.Datagram)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("", "datagram_truncated"),
        ("c1", "datagram_truncated"),
        ("c120", "datagram_unknown_version"),
        ("c11f", "datagram_unknown_kind"),
        ("c1110000000200000000000000 01", "datagram_truncated"),  # a part without a body
        ("c111 0002 0002 00000000 00000001 ff", "datagram_malformed"),  # the third of two
        ("c111 0000 0001 00000000 00000001 ff", "datagram_malformed"),  # the only one
        ("c111 0000 0000 00000000 00000001 ff", "datagram_malformed"),  # of none
        ("c111 0000 ffff 00000000 00000001 ff", "datagram_malformed"),  # of more than any wire has
        ("c112 0000", "datagram_truncated"),
        ("c112 00000000 ff", "datagram_malformed"),  # addressed to nobody
        ("c113 00000001 7f000001", "datagram_malformed"),  # half an address
    ],
)
def test_each_way_to_be_wrong_has_its_name(header: str, reason: str) -> None:
    """An operator who sees drops could not tell another version from damage."""
    with pytest.raises(BadFrame, match=reason):
        d.read(bytes.fromhex(header))
