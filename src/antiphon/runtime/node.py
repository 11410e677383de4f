"""`antiphon.Node`: a node on the real network."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from antiphon.api.node import CLOSE_S
from antiphon.api.node import Node as ApiNode
from antiphon.errors import InvalidOption
from antiphon.model.events import Installed
from antiphon.model.ids import Address, GroupId, name_of
from antiphon.model.options import Settings
from antiphon.model.view import View
from antiphon.runtime.driver import AsyncioDriver
from antiphon.runtime.founders_file import FoundersFile
from antiphon.runtime.journal import Journal
from antiphon.runtime.prometheus import MetricsEndpoint
from antiphon.runtime.transports.contract import Transport
from antiphon.runtime.transports.memory import MemoryTransport
from antiphon.runtime.transports.tcp import TcpTransport
from antiphon.store import Store
from antiphon.store.opening import backend_for
from antiphon.trace.recorder import Recorder
from antiphon.trace.recording import Recording
from antiphon.trace.trace import Trace

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
        store: str | Store | None = None,
        outbox: str | os.PathLike[str] | None = None,
        trace: Trace | str | os.PathLike[str] | None = None,
        directory: str | os.PathLike[str] | None = None,
        **more: Any,
    ) -> None:
        """`transport` is `udp` (nodes of a local network find each other by multicast), `tcp` (through `seeds`), or `memory` (within this
        process); `bind` is where this node listens, as host:port; `seeds` are addresses of nodes to find others through. With
        `credentials` nobody without them can read, send, join or disturb; `keys` guard single groups, by name, beside. With
        `metrics`, a port or host:port, Prometheus can read the node at http://host:port/metrics; a port alone is open to this machine
        only. `store` has the node's durable topics: an address, as `antiphon.open_store` takes it, and then it is opened and closed with
        the node; or a store that is open. `outbox` is a file that keeps what is published while the store does not answer. With `trace`,
        a directory, what happens at this node is recorded in files there. `directory` is where the node remembers, across restarts, the
        founders of groups with `partitions="majority"` (`FoundersFile`). What else is given goes to the transport."""
        if isinstance(seeds, str | bytes) or not isinstance(seeds, Iterable):
            raise InvalidOption("seeds", seeds, "give a list of 'host:port', even for one")
        seeds = list(seeds)
        if not all(isinstance(seed, str) for seed in seeds):
            raise InvalidOption("seeds", seeds, "give a list of 'host:port', each of them text")
        contexts = _tls(name, credentials)
        carried = _transport(transport, name, bind, seeds, contexts, more)
        # Between two TLS nodes the connection is guarded already.
        sealing = None if isinstance(carried, TcpTransport) and carried.guarded else credentials
        driver = AsyncioDriver(carried, name=name, credentials=sealing, keys=keys)
        self._recording = None if trace is None else Recording(Trace.of(trace), name)
        recorder = None if self._recording is None else self._recording.recorder
        kept = _store(store, name, outbox, recorder)
        realms = {group: group for group in keys or {}}
        super().__init__(name, driver, settings=settings, name_server=name_server, realm_by_name=realms, store=kept, recorder=recorder)
        self._own_store = None if kept is store else kept
        self._founders = None if directory is None else FoundersFile(directory, name)
        self._metrics = None if metrics is None else MetricsEndpoint(metrics, self.stats, name)
        self._journal = Journal(name, transport if isinstance(transport, str) else type(transport).__name__, self.stats)

    async def start(self) -> None:
        """Opens the store and the network, and makes the node known. `async with` does it."""
        fresh = not self._closed and self._core is None
        if fresh and self._founders is not None:
            self._founders.open()
        if fresh and self._recording is not None:
            self._recording.start()
        if fresh and self._own_store is not None:
            try:
                await self._own_store.open()
            except BaseException:
                if self._recording is not None:
                    self._recording.end()
                raise
        try:
            await super().start()
            if self._founders is not None:
                self.core.former_by_name.update(self._founders.members())
            if self._metrics is not None:
                await self._metrics.open()
        except BaseException:
            await self.close()
            raise
        self._journal.begin(self.address)

    async def close(self, *, timeout: float = CLOSE_S) -> None:
        """Leaves all groups, at most `timeout` seconds long, and closes the network and the store."""
        store, self._own_store = self._own_store, None  # its turn is after the groups, which may live on it
        try:
            await super().close(timeout=timeout)
        finally:
            if store is not None:
                await store.close(timeout=timeout)
            if self._recording is not None:
                await asyncio.to_thread(self._recording.wait, timeout)

    def _with_remembered(self, name: str, options: dict[str, Any]) -> dict[str, Any]:
        return options if self._founders is None else self._founders.complete(name, options)

    def _remember(self, id: GroupId, view: View) -> None:
        founders, member = self._founders, self.core.memberships.get(id)
        if founders is not None and member is not None and member.port.options.expect:
            # Written here and not in a thread, so that what the application reads of a view comes after it is on disk.
            members = self.core.former_by_name[name_of(id)] = tuple(map(name_of, view.members))
            if not founders.remember(name_of(id), id, member.port.options, members):
                self._journal.unwritable(founders.path)

    def stats(self) -> dict[str, object]:
        """Counters and gauges, plain values."""
        stats = super().stats()
        stats |= {} if self._store is None else {"store": self._store.stats()}
        return stats if self._recording is None else {**stats, "trace": self._recording.stats()}

    def abandon(self, why: str) -> None:
        """Ends the node without a word to anybody: whatever waits ends or raises NotInGroup."""
        super().abandon(why)
        if self._metrics is not None:
            self._metrics.close()
        self._journal.end()
        if self._recording is not None:
            self._recording.end()
        if self._own_store is not None:
            self._own_store.abandon()

    @property
    def metrics_address(self) -> Address | None:
        """Where the metrics are read, as host:port; None when there is no such endpoint."""
        return None if self._metrics is None else self._metrics.address

    def _tell(self, id: GroupId, event: Any) -> None:
        if type(event) is Installed:
            self._remember(id, event.view)
        super()._tell(id, event)
        if type(event) is not tuple:
            member = self.core.memberships.get(id)
            self._journal.hear(id, event, {} if member is None else member.absent)


def _store(
    store: str | Store | None, name: str, outbox: str | os.PathLike[str] | None, recorder: Recorder | None
) -> Store | None:
    if isinstance(store, str):
        return Store(backend_for(store), name=name, outbox=outbox, transcript=None if recorder is None else recorder.store())
    if outbox is not None:
        why = "say which store it is for, by its address" if store is None else "a store that is open has its own, or none"
        raise InvalidOption("outbox", os.fspath(outbox), why)
    return store


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
