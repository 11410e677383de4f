"""How long messages wait at a member that has them already: the price of an order.

Hold-back is the time from `Received` (the message is here) to `Delivered` (the application gets it). It is looked at for every
message at every member but its author. Waiting for an order record is hold-back; travelling, and being repaired after a loss, is
not: that is in the time from end to end.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from antiphon.model.ids import MessageId
from antiphon.sim.log import Delivered, MemberLog, Received, Sent


class HoldBack(Struct, frozen=True):
    """The hold-back of `deliveries` deliveries, of which `held` waited at all (`held_share`, 0..1). The mean and the percentiles
    (nearest rank) are over all deliveries, the ones that did not wait too."""

    deliveries: int
    held: int
    held_share: float
    mean_s: float
    p50_s: float
    p99_s: float
    max_s: float
    end_to_end_mean_s: float


def hold_back(logs: Sequence[MemberLog]) -> HoldBack:
    """The hold-back in a run, from what its members logged."""
    waits: list[float] = []
    journeys = 0.0
    sent_at: dict[MessageId, float] = {event.id: event.at for log in logs for event in log.events if type(event) is Sent}
    for log in logs:
        received_at: dict[MessageId, float] = {}
        for event in log.events:
            if type(event) is Received:
                received_at[event.id] = event.at
            elif type(event) is Delivered and event.id.sender != log.member:
                waits.append(event.at - received_at[event.id])
                journeys += event.at - sent_at[event.id]
    waits.sort()
    count, held = len(waits), sum(1 for wait in waits if wait > 0.0)
    if not count:
        return HoldBack(0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    return HoldBack(
        count, held, held / count, sum(waits) / count, _percentile(waits, 50), _percentile(waits, 99), waits[-1], journeys / count
    )


def passage(log: MemberLog, message: MessageId) -> tuple[float, float]:
    """When a message came to a member and when it was delivered there; KeyError when either did not happen."""
    received_at = {event.id: event.at for event in log.events if type(event) is Received}
    delivered_at = {event.id: event.at for event in log.events if type(event) is Delivered}
    return received_at[message], delivered_at[message]


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """The smallest value that `percent` per cent of all values do not exceed."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
