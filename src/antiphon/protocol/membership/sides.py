"""Other sides of the group that were heard of, and who of them has answered.

Anybody can write a beacon, and name in it whom he likes. To propose a view to those would send each of them a list of all, and hold this
side up until they had been silent for long enough. So they are asked first, with a few bytes each, whether they are in the view that the
beacon names, and a proposal goes only to those who said so.

| of a side                  | then                                                                                            |
|----------------------------|-------------------------------------------------------------------------------------------------|
| all have answered          | it is ready                                                                                     |
| its sender has answered    | the silent ones are asked again every `retry_s`; after `PATIENCE` it is ready without them      |
| its sender has not         | the sender alone is asked again; after `PATIENCE`, or when it says no, the side is forgotten    |

An answer repeats a number that was drawn for the side: who was not asked cannot answer.

Keeps at most `MEMBER_LIMIT` seats in all; sides whose sender has not answered make room for new ones. Costs a ping and an answer per seat,
and when two sides meet one round trip.
"""

from __future__ import annotations

from collections.abc import Callable

from antiphon.model import codec
from antiphon.model.control import Beacon, Ping, Pong, Seat
from antiphon.model.ids import ID_LIMIT, Address, MemberId
from antiphon.model.view import MEMBER_LIMIT
from antiphon.protocol.discovery.hints import ADDRESS_LIMIT
from antiphon.protocol.membership.port import Port
from antiphon.protocol.timers import Timer

PATIENCE = 1 / 3
"""The share of `change_s` that a side has to answer."""
_PROBES_FROM = 1 << 32
"""The numbers of these questions are above it, those of failure detectors below."""


class Sides:
    def __init__(self, port: Port, address: Address, on_ready: Callable[[int], None]) -> None:
        """`on_ready` is told the view of a side when its members can be proposed to."""
        self._port, self._address, self._on_ready = port, address, on_ready
        self._side_by_view: dict[int, _Side] = {}
        self._side_by_probe: dict[int, _Side] = {}

    def __len__(self) -> int:
        """How many seats are kept."""
        return sum(len(side.seats) for side in self._side_by_view.values())

    def meet(self, beacon: Beacon) -> None:
        """A side says that it is there: asks its members."""
        seats = {who: at for who, at in beacon.seats if who != self._port.me and at != self._address}
        if beacon.member not in seats or not _are_sound(seats):
            self._port.drops["malformed"] += 1
            return
        known = self._side_by_view.get(beacon.view)
        if known is not None:
            self._remove(known)
        self._make_room(len(seats))
        if len(self) + len(seats) > MEMBER_LIMIT:
            self._port.drops["too_many_sides"] += 1
            return
        side = _Side(beacon, seats, self._port)
        self._side_by_view[side.view] = self._side_by_probe[side.probe] = side
        if known is not None:
            side.answered = {who: at for who, at in known.answered.items() if seats.get(who) == at}
        self._ask(side, side.silent())
        self._review(side)

    def receive_pong(self, frame: Pong, source: Address) -> bool:
        """Takes the answer of somebody who was asked; whether it was one."""
        side = self._side_by_probe.get(frame.probe)
        if side is None or side.seats.get(frame.member) != source:
            return False
        if frame.here:
            side.answered[frame.member] = source
        else:
            self._drop(side, frame.member)  # it has gone on to another view, or somebody else wrote the beacon
        self._review(side)
        return True

    def seats(self) -> dict[MemberId, Address]:
        """Who can be proposed to, of the side with the larger view first."""
        ready = [side for _, side in sorted(self._side_by_view.items(), reverse=True) if side.ready]
        return {who: at for side in ready for who, at in side.seats.items()}

    def forget(self, member: MemberId) -> None:
        """The member took no part in a change: it must be met again."""
        for side in list(self._side_by_view.values()):
            self._drop(side, member)

    def clear(self) -> None:
        """A view was made: who is still elsewhere will be heard again."""
        for side in list(self._side_by_view.values()):
            self._remove(side)

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _make_room(self, seats: int) -> None:
        """Forgets sides for which nobody has spoken, the oldest first: invented ones must not keep a true one out."""
        excess = len(self) + seats - MEMBER_LIMIT
        for side in list(self._side_by_view.values()) if excess > 0 else ():
            if excess > 0 and not side.spoke:
                excess -= len(side.seats)
                self._port.drops["unanswered_side"] += 1
                self._remove(side)

    def _ask(self, side: _Side, whom: list[Seat]) -> None:
        for member, address in whom:
            self._port.send_to((address,), codec.encode(Ping(side.probe, self._port.group, member, side.view)))
        wait_s = self._port.settings.retry_s * self._port.rng.uniform(0.75, 1.25)
        side.timer = self._port.call_in(wait_s, lambda: self._ask_again(side))

    def _ask_again(self, side: _Side) -> None:
        if self._port.now < side.until:
            self._ask(side, side.silent() if side.spoke else [(side.sender, side.seats[side.sender])])
        elif side.spoke:
            side.seats = dict(side.answered)
            self._review(side)
        else:
            self._port.drops["unanswered_side"] += 1
            self._remove(side)

    def _review(self, side: _Side) -> None:
        if not side.ready and side.spoke and len(side.answered) == len(side.seats):
            side.ready = True
            side.stop()
            self._on_ready(side.view)

    def _drop(self, side: _Side, member: MemberId) -> None:
        side.answered.pop(member, None)
        if side.seats.pop(member, None) is not None and (not side.seats or (member == side.sender and not side.ready)):
            self._remove(side)

    def _remove(self, side: _Side) -> None:
        side.stop()
        del self._side_by_view[side.view], self._side_by_probe[side.probe]


class _Side:
    """Who a side says is in it, and who of them has answered. When it is `ready`, that is the same."""

    def __init__(self, beacon: Beacon, seats: dict[MemberId, Address], port: Port) -> None:
        self.view, self.sender, self.seats = beacon.view, beacon.member, seats
        self.answered: dict[MemberId, Address] = {}
        self.probe = _PROBES_FROM | port.rng.getrandbits(32)
        self.until = port.now + PATIENCE * port.settings.change_s
        self.ready = False
        self.timer: Timer | None = None

    @property
    def spoke(self) -> bool:
        """Whether its sender has answered."""
        return self.sender in self.answered

    def silent(self) -> list[Seat]:
        return [seat for seat in self.seats.items() if seat[0] not in self.answered]

    def stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()


def _are_sound(seats: dict[MemberId, Address]) -> bool:
    """Whether nothing in them is longer than it may be."""
    return all(0 < len(member) <= ID_LIMIT and 0 < len(address) <= ADDRESS_LIMIT for member, address in seats.items())
