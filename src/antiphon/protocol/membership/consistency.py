"""Recovery from frames that were believed and are false.

Where nobody needs a key, anybody can send frames under a member's address. Some of them leave claims that nothing can fulfil: messages
that nobody sent, places in the total order for messages that do not exist, predecessors that never come. The group would wait for them for
ever. So each member looks, every `suspect_s`, for what cannot be so among members that all live and read:

- a message that somebody has or knows of, and that its own sender says it has not sent;
- a position that a member is said to have reached, and that its own digests do not name;
- a message that every member has, and that the ordering does not let go.

What is the same in `_LOOKS` looks is taken for false, and the coordinator is asked for a new view of the same members: what each sender
itself says that it sent decides where its stream goes on, and everything else begins anew. Frames that are only lost, late or doubled do
not lead there. Between two such requests of a member there are at least twice as many looks
as before, up to `_PAUSE_LOOKS`, until it has found nothing in a look.

Keeps a few numbers per stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from antiphon.protocol.multicast.reliable import Reliable
from antiphon.protocol.timers import Timer

if TYPE_CHECKING:
    from antiphon.protocol.membership.membership import Membership

_LOOKS = 3
_PAUSE_LOOKS = 64


class ConsistencyCheck:
    def __init__(self, member: Membership) -> None:
        self._member, self._port = member, member.port
        self._looks_by_finding: dict[tuple[str, int, int], int] = {}
        """What was found at the last look, and how often in a row: its kind, its stream, and the number it is about."""
        self._pause_looks = self._wait_looks = 0
        self._timer: Timer | None = None

    def on_view(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._looks_by_finding.clear()
        view = self._port.view
        if view is not None and len(view.members) > 1 and self._member.port.options.multicast != "besteffort":
            self._look_later()

    def _look_later(self) -> None:
        self._timer = self._port.call_in(self._port.settings.suspect_s, self._look)

    def _look(self) -> None:
        member, before = self._member, self._looks_by_finding
        if member.departed:
            return
        self._look_later()
        if member.agreement.changing:
            before.clear()
            return
        self._looks_by_finding = {finding: before.get(finding, 0) + 1 for finding in self._findings(before)}
        if not self._looks_by_finding:
            self._pause_looks = 0
        self._wait_looks -= 1
        if self._wait_looks <= 0 and any(looks >= _LOOKS for looks in self._looks_by_finding.values()):
            self._pause_looks = min(max(2 * self._pause_looks, _LOOKS), _PAUSE_LOOKS)
            self._wait_looks = self._pause_looks
            member.coordinator.request_view()

    def _findings(self, before: dict[tuple[str, int, int], int]) -> list[tuple[str, int, int]]:
        endpoint = self._member.endpoint
        if endpoint is None or not isinstance(endpoint.multicast, Reliable) or not endpoint.multicast.reading:
            return []
        multicast, found = endpoint.multicast, list[tuple[str, int, int]]()
        for kind, where, claimed, reached in multicast.contradictions():
            # The lowest claim that is not reached yet: under load there is always a newer one.
            open_claims = [number for what, at, number in before if (what, at) == (kind, where) and number > reached]
            found.append((kind, where, min(open_claims, default=claimed)))
        for sender, number in endpoint.ordering.held_heads():
            # As long as somebody lacks it, somebody may just be slow, or not read.
            stream = multicast.data[sender]
            if multicast.stability.lowest(stream) >= number:
                found.append(("held", stream.index, number))
        return found
