"""The names of orders and multicasts, and which go together."""

from __future__ import annotations

from antiphon.errors import InvalidOption
from antiphon.model.control import PROMISE_NAME_LIMIT, PROMISES_LIMIT
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

COMMON_PROMISES = ("integrity", "no_duplication", "validity", "views")
"""What every group promises, whatever its options."""


def promises_of(options: GroupOptions) -> tuple[str, ...]:
    """Return the names of the promises of a group with these options: common ones, then those of its multicast, delivery and order.

    An order that declares no promises, or is not known here, is represented by its own name."""
    ordering, multicast = ORDERS.get(options.order), MULTICASTS.get(options.multicast)
    declared = ordering.promises if ordering is not None else None
    return tuple(
        dict.fromkeys(
            (
                *COMMON_PROMISES,
                *(multicast.promises if multicast is not None else ()),
                *(("safe",) if options.delivery == "safe" else ()),
                *(declared if declared is not None else (options.order,)),
            )
        )
    )


def stages(options: GroupOptions) -> tuple[type[Ordering], type[Multicast]]:
    """The two stages a group asks for; InvalidOption when there is no such stage or the two cannot work together."""
    ordering, multicast = ORDERS.get(options.order), MULTICASTS.get(options.multicast)
    if ordering is None:
        raise InvalidOption("order", options.order, f"choose one of {', '.join(ORDERS)}")
    if multicast is None:
        raise InvalidOption("multicast", options.multicast, f"choose one of {', '.join(MULTICASTS)}")
    promises = promises_of(options)
    if len(promises) > PROMISES_LIMIT or not all(0 < len(name) <= PROMISE_NAME_LIMIT for name in promises):
        limits = f"at most {PROMISES_LIMIT}, each with a name of 1 to {PROMISE_NAME_LIMIT} characters"
        raise InvalidOption("order", options.order, f"shorten the promises of {ordering.__name__}: {limits}")
    if multicast is BestEffort:
        if not ordering.over_besteffort:
            raise InvalidOption(
                "order", options.order, "besteffort would let it wait for ever for a lost message; use reliable, flood or tree"
            )
        if options.delivery == "safe":
            raise InvalidOption("delivery", "safe", "besteffort does not know who holds a message; use reliable, flood or tree")
    return ordering, multicast
