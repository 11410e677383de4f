"""Messages from outside, as a member of an open group takes them.

An outsider hands its numbered messages to one member, which sends them to the group as its own and says how many it has taken. When
that member dies, or seems to, the outsider goes on with another: so a message may be sent to the group twice, under two members, and
`first_time` lets it be delivered once at each.

Promises: each message of an outsider is delivered at most once per member, also when it is part of a state that came instead, and those
that one member takes in their order. What a member took and had not sent when it died is lost, like its own messages. When sending
would block, nothing more is taken and the outsider tries again later.

Keeps two memories of at most `OUTSIDER_LIMIT` outsiders, those not heard from for longest forgotten first, and of each the numbers
delivered as at most `RANGES_LIMIT` ranges.
"""

from __future__ import annotations

from collections.abc import Callable

from antiphon.errors import NoQuorum, UsageError, WorldError
from antiphon.model import codec
from antiphon.model.control import Guest, Holdings, Taken
from antiphon.model.frames import SEQNO_LIMIT
from antiphon.model.ids import ID_LIMIT, Address, MemberId
from antiphon.model.ranges import Ranges
from antiphon.protocol.membership.port import Port
from antiphon.protocol.sync.ledger import Ledger

OUTSIDER_LIMIT = 1_024
RANGES_LIMIT = 256


class Guests:
    def __init__(self, port: Port, submit: Callable[[bytes, tuple[MemberId, int]], object]) -> None:
        """`submit` sends a payload to the group for an outsider and its number, or raises as an endpoint's `submit` does."""
        self._port, self._submit = port, submit
        self._taken_by_outsider: dict[MemberId, int] = {}
        self._delivered_by_outsider: dict[MemberId, Ranges] = {}

    def receive_guest(self, frame: Guest, source: Address) -> None:
        """Takes as many of the messages as can be sent now, and says so to `source`."""
        outsider, last = frame.member, frame.first + len(frame.payloads) - 1
        if not 0 < len(outsider) <= ID_LIMIT or last > SEQNO_LIMIT:
            self._port.drops["malformed_guest"] += 1
            return
        if not self._port.options.open:
            self._port.drops["guest_of_closed_group"] += 1
            self._answer(source, outsider, 0, "closed")
            return
        # Everything before the frame's first was taken by somebody: a member that comes second need not have seen it.
        taken = max(self._taken_by_outsider.pop(outsider, 0), frame.first - 1)
        delivered = self._delivered_by_outsider.get(outsider, Ranges())
        refused = ""
        while taken < last:
            number = taken + 1
            if number not in delivered:
                try:
                    self._submit(frame.payloads[number - frame.first], (outsider, number))
                except NoQuorum:
                    # This side is stopped; another may be at work.
                    refused = "gone"
                    break
                except WorldError:
                    break
                except UsageError:
                    # The outsider's limits are not this member's: without an answer it would try for ever.
                    self._port.drops["guest_too_large"] += 1
                    refused = "too large"
                    break
            taken = number
        self._taken_by_outsider[outsider] = taken
        _forget_oldest(self._taken_by_outsider)
        self._answer(source, outsider, taken, refused)

    def first_time(self, outsider: MemberId, number: int) -> bool:
        """Whether message `number` of an outsider is to be delivered now: called once for each copy, as its turn comes."""
        delivered = self._delivered_by_outsider.pop(outsider, None) or Ranges()
        self._delivered_by_outsider[outsider] = delivered
        _forget_oldest(self._delivered_by_outsider)
        if number in delivered:
            self._port.drops["duplicate_guest"] += 1
            return False
        delivered.add(number, number)
        if len(delivered) > RANGES_LIMIT:
            # The oldest hole: whoever should have filled it is long gone.
            delivered.add(delivered.lows[0], delivered.highs[1])
        return True

    def delivered(self) -> Holdings:
        """Which messages of which outsiders were delivered: goes with a state, which stands for them."""
        return {outsider: [bound for pair in ranges for bound in pair] for outsider, ranges in self._delivered_by_outsider.items()}

    def adopt(self, delivered: Holdings) -> None:
        """A state has come that stands for these."""
        for outsider, ranges in Ledger.of(delivered).ranges_by_sender.items():
            mine = self._delivered_by_outsider.setdefault(outsider, Ranges())
            for low, high in ranges:
                mine.add(low, high)
        _forget_oldest(self._delivered_by_outsider)

    def _answer(self, source: Address, outsider: MemberId, number: int, refused: str) -> None:
        self._port.send_to((source,), codec.encode(Taken(self._port.group, outsider, number, refused)))


def _forget_oldest(by_outsider: dict[MemberId, int] | dict[MemberId, Ranges]) -> None:
    while len(by_outsider) > OUTSIDER_LIMIT:
        del by_outsider[next(iter(by_outsider))]
