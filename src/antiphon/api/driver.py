"""What a node needs from the world: a clock, timers, and a network that carries frames between addresses.

A driver promises that callbacks never overlap, that `now` never goes backwards, and that frames which come from an address were sent by
the node there (as far as its transport and credentials can tell). It may lose, repeat, delay and reorder frames.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from antiphon.model.ids import Address, GroupId
from antiphon.model.refusals import Refusals


class Receive(Protocol):
    """Takes frames from an address, in the order they came; with the realm (a group's name) whose key opened them, `""` for the node's
    own."""

    def __call__(self, source: Address, wires: Sequence[bytes], realm: str = "", /) -> None: ...



class Cancellable(Protocol):
    def cancel(self) -> object: ...


class Driver(Protocol):
    @property
    def address(self) -> Address:
        """Where others reach this node; known once it is open."""
        ...

    @property
    def seeds(self) -> Sequence[str] | None:
        """Addresses of nodes that were named beforehand, to find others through: they are asked for groups to join."""
        ...

    @property
    def frame_bytes(self) -> int:
        """How large a frame should be at most on this network."""
        ...

    @property
    def lossless(self) -> bool:
        """Whether frames are lost only when a peer is gone or far behind."""
        ...

    def now(self) -> float:
        """Seconds since some point that all nodes share roughly; never backwards."""
        ...

    def call_at(self, when: float, callback: Callable[[], None]) -> Cancellable: ...

    def call_soon(self, callback: Callable[[], None]) -> object: ...

    def send(self, to: tuple[Address, ...] | None, wire: bytes, group: GroupId | None) -> None:
        """Sends a frame to these, or (None) to every node that can be found. Never waits and never raises for the world's faults."""
        ...

    async def open(self, receive: Receive) -> None: ...

    async def close(self) -> None: ...

    def stats(self) -> dict[str, object]: ...


@runtime_checkable
class CountsRefusals(Protocol):
    """A driver that refuses what has not the right credentials."""

    refusals: Refusals


@runtime_checkable
class ReportsRefusedConnections(Protocol):
    """A driver or transport that has connections, and notices when the process at the other end is gone."""

    def report_refused(self, report: Callable[[Address], None]) -> None:
        """Call `report` from now on with each address to which there was a connection, and that refuses another."""
        ...
