"""How a recorded node's groups stand, told to their transcripts once in a while.

Only a recording node has it. It takes a sample when a turn ends and the last one is `PAUSE_S` old, so it wakes nobody up. Cost: O(members)
per group and sample.
"""

from __future__ import annotations

from collections.abc import Mapping

from antiphon.model.ids import GroupId
from antiphon.protocol.endpoint import Endpoint
from antiphon.protocol.membership.membership import Membership
from antiphon.protocol.multicast.reliable import Reliable

PAUSE_S = 1.0


class Samples:
    def __init__(self, memberships: Mapping[GroupId, Membership]) -> None:
        self._memberships = memberships
        self._next_at = 0.0

    def take(self, now: float) -> None:
        """The turn ends."""
        if now >= self._next_at:
            self._next_at = now + PAUSE_S
            for member in self._memberships.values():
                sample(member)


def sample(member: Membership) -> None:
    """Tells the transcript of a membership how it stands."""
    if member.transcript is not None and member.endpoint is not None:
        drops = member.port.drops + member.endpoint.context.drops
        sample_endpoint(member.endpoint, drops)


def sample_endpoint(endpoint: Endpoint, drops: Mapping[str, int] | None = None) -> None:
    """Tells the transcript of an endpoint how it stands."""
    transcript, multicast, ordering = endpoint.transcript, endpoint.multicast, endpoint.ordering
    if transcript is None:
        return
    places, repairs, kept = 0, dict[str, int](), 0
    if isinstance(multicast, Reliable):
        repairs = {"asked": multicast.repair.requests_sent, "sent": multicast.repair.repairs_sent}
        kept = sum(stream.high - stream.stable for stream in multicast.data.values())
        if ordering.numbers_places:
            places = multicast.record_streams[endpoint.view.members[0]].stable
    queues = {"held": ordering.held, "unstable": kept, "unsent": endpoint.unsent}
    transcript.sample(endpoint.view.id, multicast.known_stable(), places, drops or endpoint.context.drops, repairs, queues)
