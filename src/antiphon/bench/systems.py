"""The systems that can do the work: a system is one module and one line here.

Its module has `take_part(seat)`, which is run in every member's process. It may also have

- `missing() -> str`: what has to be installed before it can run, as a command; empty when it can,
- `serve(work)`: a context manager around the run that starts its server and yields the work with the server's address and pid,
- `command(work) -> Callable[[int], list[str]]`: the command line of a member that is no Python process.

Modules are loaded by name when they run, and the packages of other projects inside of their functions: nothing here needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from antiphon.errors import UsageError


class System(NamedTuple):
    """`orders` are those that it promises; `batched` says that messages travel in batches of the work's size."""

    name: str
    label: str
    module: str
    orders: tuple[str, ...]
    batched: bool = False
    packed: bool = False
    """Whether the batches are made by the application, above a system that handles messages one by one."""

    def missing(self) -> str:
        """What has to be done before it can run; empty when it can."""
        ask = getattr(load(self.name), "missing", None)
        return ask() if ask is not None else ""


LIMIT, ANTIPHON = "limit", "antiphon"
ANTIPHON_TCP, ZEROMQ_IPC = "antiphon-tcp", "zeromq-ipc"
"""Antiphon without its short way between processes of one machine, and pyzmq with its own."""
_PEERS = "antiphon.bench.peers"

SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        System(LIMIT, "the bare loop", "antiphon.bench.limit", ("total", "fifo"), batched=True),
        System(ANTIPHON, "Antiphon", "antiphon.bench.group", ("total", "fifo", "causal", "semantic", "unordered"), batched=True),
        System(ANTIPHON_TCP, "Antiphon, TCP alone", "antiphon.bench.group", ("total", "fifo"), batched=True),
        System("zeromq", "pyzmq", f"{_PEERS}.zeromq", ("fifo",)),
        System(ZEROMQ_IPC, "pyzmq, ipc", f"{_PEERS}.zeromq", ("fifo",)),
        System("nats", "NATS core", f"{_PEERS}.nats_core", ("fifo",)),
        System("zenoh", "Zenoh", f"{_PEERS}.zenoh", ("fifo",)),
        System("jetstream", "NATS JetStream", f"{_PEERS}.jetstream", ("total",)),
        System("redis", "Redis Streams", f"{_PEERS}.redis_streams", ("total",)),
        System("zeromq-batches", "pyzmq, packed", f"{_PEERS}.zeromq", ("fifo",), batched=True, packed=True),
        System("nats-batches", "NATS core, packed", f"{_PEERS}.nats_core", ("fifo",), batched=True, packed=True),
        System("zenoh-batches", "Zenoh, packed", f"{_PEERS}.zenoh", ("fifo",), batched=True, packed=True),
        System("jetstream-batches", "NATS JetStream, packed", f"{_PEERS}.jetstream", ("total",), batched=True, packed=True),
        System("redis-batches", "Redis Streams, packed", f"{_PEERS}.redis_streams", ("total",), batched=True, packed=True),
        System("jgroups", "JGroups", f"{_PEERS}.jgroups", ("total", "fifo")),
    )
}


def module_of(name: str) -> str:
    system = SYSTEMS.get(name)
    if system is None:
        raise UsageError(f"{name!r} is no system that can be measured: choose one of {', '.join(SYSTEMS)}")
    return system.module


def load(name: str) -> Any:
    return import_module(module_of(name))
