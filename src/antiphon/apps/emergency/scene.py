"""What is said in an emergency, and who decides what follows from it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from antiphon.store import Value
from antiphon.store.agents import Agent, Outcome

SERVICES = ("cops", "ambulance", "fire")


class Crash(Struct, frozen=True):
    """What a person reports."""

    place: str
    hurt: int = 0
    burning: bool = False


class Dispatch(Struct, frozen=True):
    """What 911 tells a service."""

    call: int
    """The how-many-th call of the day."""
    place: str
    order: str


def dispatch(report: Value, calls: int) -> Outcome:
    """A crash, and how many calls there were before; what is to be done by whom."""
    crash: Crash = report.data
    call = calls + 1
    orders: list[tuple[str, Any]] = [("cops", Dispatch(call, crash.place, "close the road"))]
    if crash.hurt:
        orders.append(("ambulance", Dispatch(call, crash.place, f"{crash.hurt} hurt")))
    if crash.burning:
        orders.append(("fire", Dispatch(call, crash.place, "a car is burning")))
    return call, orders


def hotline(silence_s: float = 5.0) -> Agent:
    """911: the same agent on every machine that may run it; each crash is one step of it, whichever machine dies when."""
    return Agent("911", "crash", dispatch, dict.fromkeys(SERVICES, Dispatch), type=Crash, state=0, silence_s=silence_s)
