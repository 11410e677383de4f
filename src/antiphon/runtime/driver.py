"""The driver for real networks: asyncio's clock and timers, a transport, and where there are credentials a sealer between.

`now` is the wall clock of the start plus a monotonic clock, so it never goes backwards. With a sealer every frame is sealed for the realm
of its group before it is sent, and opened before the node sees it; the sealer's own questions to strangers travel beside.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from antiphon.api.driver import CountsRefusals, Receive, ReportsRefusedConnections
from antiphon.model.ids import Address, GroupId
from antiphon.model.refusals import Refusals
from antiphon.runtime.transports.contract import Transport

if TYPE_CHECKING:
    from antiphon.runtime.security import Certificates, PreSharedKey, Sealer

_SEAL_BYTES = 64
"""More than sealing adds to a frame."""
_GRAIN_S = 0.001
"""How early a loop's timer may come: uvloop counts in milliseconds. One that comes early finds nothing to do, and is set again and again
until its time."""


class AsyncioDriver:
    def __init__(
        self,
        transport: Transport,
        *,
        name: str = "",
        credentials: PreSharedKey | Certificates | None = None,
        keys: Mapping[str, PreSharedKey] | None = None,
    ) -> None:
        """`credentials` seal everything, `keys` what belongs to groups of these names."""
        self.transport = transport
        self._name, self._credentials, self._keys = name, credentials, dict(keys or {})
        self._sealer: Sealer | None = None
        self.refusals = transport.refusals if isinstance(transport, CountsRefusals) else Refusals()
        self._wake: asyncio.TimerHandle | None = None
        self._wake_at = float("inf")
        self._offset = time.time() - time.monotonic()

    @property
    def address(self) -> Address:
        return self.transport.address

    @property
    def seeds(self) -> tuple[Address, ...]:
        return tuple(getattr(self.transport, "seeds", ()))

    @property
    def frame_bytes(self) -> int:
        return self.transport.frame_bytes - (_SEAL_BYTES if self._sealer is not None else 0)

    @property
    def lossless(self) -> bool:
        return self.transport.lossless

    def now(self) -> float:
        return time.monotonic() + self._offset

    def call_at(self, when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        # A time, and no delay: uvloop would count it from when its turn began.
        return self._loop.call_at(when - self._offset + _GRAIN_S, callback)

    def call_soon(self, callback: Callable[[], None]) -> object:
        return self._loop.call_soon(callback)

    async def open(self, receive: Receive) -> None:
        self._loop, self._receive = asyncio.get_running_loop(), receive
        if self._credentials is None and not self._keys:
            await self.transport.open(receive)
            return
        from antiphon.runtime.security import Sealer

        await self.transport.open(self._take)
        try:
            self._sealer = Sealer(
                self._credentials,
                self._keys,
                address=self.transport.address,
                now=self.now(),
                name=self._name,
                refusals=self.refusals,
            )
        except BaseException:
            await self.transport.close()
            raise

    def send(self, to: tuple[Address, ...] | None, wire: bytes, group: GroupId | None) -> None:
        sealer = self._sealer
        if sealer is not None:
            wire = sealer.seal(wire, sealer.realm_of(group))
        if to is None:
            self.transport.broadcast(wire)
        else:
            self.transport.send(to, wire)

    def report_refused(self, report: Callable[[Address], None]) -> None:
        if isinstance(self.transport, ReportsRefusedConnections):
            self.transport.report_refused(report)

    async def close(self) -> None:
        try:
            await self.transport.close()
        finally:
            # Only now: what came while the transport closed may have set it.
            if self._wake is not None:
                self._wake.cancel()

    def stats(self) -> dict[str, object]:
        stats = self.transport.stats()
        return stats if self._sealer is None else {**stats, "security": self._sealer.stats()}

    # -- sealed ----------------------------------------------------------------------------------------------------------------

    def _take(self, source: Address, wires: list[bytes]) -> None:
        sealer = self._sealer
        if sealer is None:
            self.transport.drops["not_ready"] += len(wires)
            return
        now, realm, ready = self.now(), "", list[bytes]()
        for wire in wires:
            for opened, where in sealer.open(now, source, wire):
                if where != realm and ready:
                    self._receive(source, ready, realm)
                    ready = []
                realm = where
                ready.append(opened)
        if ready:
            self._receive(source, ready, realm)
        self._talk()

    def _talk(self) -> None:
        """Sends what the sealer has to say, and looks after its timer."""
        sealer = self._sealer
        assert sealer is not None, "only a sealer talks"
        for to, wire in sealer.outgoing():
            self.transport.send((to,), wire)
        deadline = sealer.deadline
        if deadline is not None and deadline < self._wake_at:
            if self._wake is not None:
                self._wake.cancel()
            self._wake_at = deadline
            self._wake = self.call_at(deadline, self._tick)

    def _tick(self) -> None:
        self._wake, self._wake_at = None, float("inf")
        if self._sealer is not None:
            self._sealer.tick(self.now())
            self._talk()
