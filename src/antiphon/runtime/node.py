"""`antiphon.Node`: a node on the real network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from antiphon.api.node import Node as ApiNode
from antiphon.errors import InvalidOption
from antiphon.model.ids import Address, GroupId
from antiphon.model.options import Settings
from antiphon.runtime.driver import AsyncioDriver
from antiphon.runtime.journal import Journal
from antiphon.runtime.prometheus import MetricsEndpoint
from antiphon.runtime.transports.contract import Transport
from antiphon.runtime.transports.memory import MemoryTransport
from antiphon.runtime.transports.tcp import TcpTransport

if TYPE_CHECKING:
    from antiphon.runtime.security import Certificates, PreSharedKey


class Node(ApiNode):
    def __init__(
        self,
        name: str,
        *,
        transport: str | Transport = "udp",
        bind: str | None = None,
        seeds: Sequence[str] = (),
        credentials: PreSharedKey | Certificates | None = None,
        keys: Mapping[str, PreSharedKey] | None = None,
        settings: Settings | None = None,
        name_server: bool = True,
        metrics: str | int | None = None,
        **more: Any,
    ) -> None:
        """`transport` is `udp` (nodes of a local network find each other by multicast), `tcp` (through `seeds`), or `memory` (within this
        process); `bind` is where this node listens, as host:port; `seeds` are addresses of nodes to find others through. With
        `credentials` nobody without them can read, send, join or disturb; `keys` guard single groups, by name, beside. With
        `metrics`, a port or host:port, Prometheus can read the node at http://host:port/metrics; a port alone is open to this machine
        only. What else is given goes to the transport."""
        contexts = _tls(name, credentials)
        carried = _transport(transport, name, bind, seeds, contexts, more)
        # Between two TLS nodes the connection is guarded already.
        sealing = None if isinstance(carried, TcpTransport) and carried.guarded else credentials
        driver = AsyncioDriver(carried, name=name, credentials=sealing, keys=keys)
        super().__init__(name, driver, settings=settings, name_server=name_server, realm_by_name={group: group for group in keys or {}})
        self._metrics = None if metrics is None else MetricsEndpoint(metrics, self.stats, name)
        self._journal = Journal(name, transport if isinstance(transport, str) else type(transport).__name__, self.stats)

    async def start(self) -> None:
        """Opens the network and makes the node known. `async with` does it."""
        await super().start()
        try:
            if self._metrics is not None:
                await self._metrics.open()
        except BaseException:
            await super().close()
            raise
        self._journal.begin(self.address)

    def abandon(self, why: str) -> None:
        """Ends the node without a word to anybody: whatever waits ends or raises NotInGroup."""
        super().abandon(why)
        if self._metrics is not None:
            self._metrics.close()
        self._journal.end()

    @property
    def metrics_address(self) -> Address | None:
        """Where the metrics are read, as host:port; None when there is no such endpoint."""
        return None if self._metrics is None else self._metrics.address

    def _tell(self, id: GroupId, event: Any) -> None:
        super()._tell(id, event)
        if type(event) is not tuple:
            member = self.core.memberships.get(id)
            self._journal.hear(id, event, {} if member is None else member.absent)


def _transport(
    kind: str | Transport,
    name: str,
    bind: str | None,
    seeds: Sequence[str],
    contexts: dict[str, Any],
    more: dict[str, Any],
) -> Transport:
    if not isinstance(kind, str):
        return kind
    if kind == "tcp":
        return TcpTransport(bind or "127.0.0.1:0", name=name, seeds=seeds, **contexts, **more)
    if kind == "memory":
        return MemoryTransport([Address(seed) for seed in seeds])
    if kind == "udp":
        from antiphon.runtime.transports.udp import UdpTransport

        return UdpTransport(bind or "0.0.0.0:0", seeds=[Address(seed) for seed in seeds], **more)
    raise InvalidOption("transport", kind, "choose 'udp', 'tcp' or 'memory'")


def _tls(name: str, credentials: PreSharedKey | Certificates | None) -> dict[str, Any]:
    """What makes TCP connections TLS, where there are certificates; a certificate that others would refuse is refused here."""
    if credentials is None:
        return {}
    from antiphon.runtime.security import Certificates, peer_names

    if not isinstance(credentials, Certificates):
        return {}
    credentials.check(name)
    return {"contexts": (credentials.server_context(), credentials.client_context()), "peer_names": peer_names}
