"""The names of orders and multicasts, and which go together."""

from __future__ import annotations

from antiphon.errors import InvalidOption
from antiphon.model.options import GroupOptions
from antiphon.protocol.multicast.besteffort import BestEffort
from antiphon.protocol.multicast.flood import Flood
from antiphon.protocol.multicast.multicast import Multicast
from antiphon.protocol.multicast.reliable import Reliable
from antiphon.protocol.multicast.tree import Tree
from antiphon.protocol.ordering.causal import Causal
from antiphon.protocol.ordering.fifo import Fifo
from antiphon.protocol.ordering.semantic import Semantic
from antiphon.protocol.ordering.total import Total
from antiphon.protocol.ordering.unordered import Unordered
from antiphon.protocol.stage import Ordering

ORDERS: dict[str, type[Ordering]] = {
    "unordered": Unordered,
    "fifo": Fifo,
    "causal": Causal,
    "total": Total,
    "semantic": Semantic,
}
MULTICASTS: dict[str, type[Multicast]] = {
    "besteffort": BestEffort,
    "reliable": Reliable,
    "flood": Flood,
    "tree": Tree,
}


def stages(options: GroupOptions) -> tuple[type[Ordering], type[Multicast]]:
    """The two stages a group asks for; InvalidOption when there is no such stage or the two cannot work together."""
    ordering, multicast = ORDERS.get(options.order), MULTICASTS.get(options.multicast)
    if ordering is None:
        raise InvalidOption("order", options.order, f"choose one of {', '.join(ORDERS)}")
    if multicast is None:
        raise InvalidOption("multicast", options.multicast, f"choose one of {', '.join(MULTICASTS)}")
    if multicast is BestEffort:
        if not ordering.over_besteffort:
            raise InvalidOption(
                "order", options.order, "besteffort would let it wait for ever for a lost message; use reliable, flood or tree"
            )
        if options.delivery == "safe":
            raise InvalidOption("delivery", "safe", "besteffort does not know who holds a message; use reliable, flood or tree")
    return ordering, multicast
