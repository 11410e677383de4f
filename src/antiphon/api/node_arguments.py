"""Arguments of `Node.create` and `Node.join`, checked and turned into what the core takes, and the settings that suit a driver."""

from __future__ import annotations

from typing import Any

import msgspec

from antiphon.api.driver import Driver
from antiphon.errors import InvalidOption
from antiphon.model.control import Wants
from antiphon.model.options import GroupOptions, Settings

_LOSSLESS_NACK_S, _LOSSLESS_DIGEST_S = 0.25, 1.0


def fit_settings(settings: Settings | None, driver: Driver) -> Settings:
    """Return `settings`, with what the user did not choose adapted to the driver: the largest frames it carries well, and late requests and
    digests where gaps close by themselves, because a digest that has nothing to report would delay the next message."""
    chosen, plain = settings or Settings(), Settings()
    suits: dict[str, Any] = {"frame_bytes": driver.frame_bytes}
    if driver.lossless:
        suits |= {"nack_s": _LOSSLESS_NACK_S, "digest_s": min(_LOSSLESS_DIGEST_S, chosen.heartbeat_s)}
    fitting = {name: value for name, value in suits.items() if getattr(chosen, name) == getattr(plain, name)}
    return msgspec.structs.replace(chosen, **fitting)


def is_on_store(on: str) -> bool:
    """Return whether a group is on the node's store. Raises InvalidOption."""
    if on not in ("network", "store"):
        raise InvalidOption("on", on, "choose 'network', or 'store' for a group on the node's store")
    return on == "store"


def parse_options(options: dict[str, Any]) -> GroupOptions:
    """Return the options of a group. Raises InvalidOption for an unknown name or a bad value."""
    unknown = [name for name in options if name not in GroupOptions.__struct_fields__]
    if unknown:
        known = ", ".join(GroupOptions.__struct_fields__)
        raise InvalidOption(unknown[0], options[unknown[0]], f"there is no such option: choose among {known}")
    return GroupOptions(**options)


def parse_history(history: str | tuple[str, float]) -> Wants:
    """Return what of the past a newcomer wants. Raises InvalidOption."""
    match history:
        case "all" | "none" | "state":
            return Wants(kind=history)
        case ("last", int(count)) if count > 0:
            return Wants(kind="last", count=count)
        case ("since", float() | int() as since):
            return Wants(kind="since", since=float(since))
    raise InvalidOption("history", history, "choose 'all', 'none', 'state', ('last', count) or ('since', time)")
