"""Which back end an address means. A further one is a line in the table, and the class it names.

    memory: or memory:NAME                  within this process
    sqlite:PATH                             a file, for all processes of this machine
    nats://host:4222?sync=always            JetStream servers, for many machines
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import cast

from antiphon.errors import BadStore, InvalidOption
from antiphon.store.contract import Backend
from antiphon.store.settings import StoreSettings
from antiphon.store.sqlite.address import parse
from antiphon.store.store import Store

_BACKENDS = {
    "memory": ("antiphon.store.memory", "MemoryBackend"),
    "sqlite": ("antiphon.store.sqlite", "SqliteBackend"),
    "nats": ("antiphon.store.jetstream", "JetStreamBackend"),
    "tls": ("antiphon.store.jetstream", "JetStreamBackend"),
}


def open_store(
    url: str,
    *,
    name: str | None = None,
    outbox: str | os.PathLike[str] | None = None,
    settings: StoreSettings | None = None,
) -> Store:
    """The store at this address, opened by `async with` (or `await`). `name` says who publishes; without it the store can only be read.
    `outbox` is a file on this machine's own disk that keeps what is published while the store does not answer; then a store that is out of
    reach can be opened too. `settings` are patience and bounds."""
    return Store(backend_for(url), name=name, outbox=outbox, settings=settings)


def backend_for(url: str) -> Backend:
    """The back end of this address, not opened yet."""
    if not isinstance(url, str):
        raise InvalidOption("store", url, "give an address such as 'sqlite:field.db'")
    scheme, colon, _ = url.partition(":")
    if not colon or scheme not in _BACKENDS:
        known = ", ".join(f"{known}:" for known in _BACKENDS)
        raise BadStore(_without_password(url), f"an address begins with one of {known} (for a file: sqlite:PATH)")
    module, kind = _BACKENDS[scheme]
    return cast(Backend, getattr(import_module(module), kind)(url))


def is_made(url: str) -> bool:
    """Whether somebody has made the file of this address, which opening it would do; what lies behind a network tells for itself. Raises
    BadStore where there cannot be one."""
    if not url.startswith("sqlite:"):
        return True
    address = parse(url)
    address.check()
    return os.path.exists(address.path)


def require_made(url: str) -> None:
    """For whoever only reads: raises BadStore where there is no file, so that a mistyped address does not become an empty store."""
    if not is_made(url):
        raise BadStore(url, "there is no such file, and reading makes none: look at the name; publishing there makes it")


def _without_password(url: str) -> str:
    """What may be shown of an address that makes no sense."""
    return "…@" + url.rpartition("@")[2] if "@" in url else url
