"""When the endpoints of one view are at rest: nothing more will be delivered unless somebody sends.

All have the same messages without gaps, hold none back, and in a safe group know that they may deliver what they have. Over best
effort nothing is repaired, so what is lost stays lost and only what is held counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.model.ids import MessageId
from antiphon.model.options import GroupOptions
from antiphon.protocol.endpoint import Endpoint


def at_rest(endpoints: Sequence[Endpoint], options: GroupOptions) -> bool:
    if any(end.ordering.held or not end.multicast.level() for end in endpoints):
        return False
    if options.multicast == "besteffort" or not endpoints:
        return True
    positions = [end.multicast.positions() for end in endpoints]
    if any(position != positions[0] for position in positions):
        return False
    # A safe group may have everything everywhere and not know yet that it has: its latest messages are still held.
    return options.delivery != "safe" or not any(
        end.why(MessageId(sender, seqno)).state == "held" for end in endpoints for sender, seqno in positions[0].items()
    )
