"""Stores in files and on a server, for agents in processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import pytest

_FRESH = count(1)


@pytest.fixture(scope="session")
def jetstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if find_spec("nats") is None:
        pytest.skip("nats-py is not installed: pip install 'antiphon[nats]'")
    from antiphon.store.jetstream import LocalServers

    with LocalServers(1, tmp_path_factory.mktemp("jetstream")) as servers:
        yield servers.url


@pytest.fixture(params=["sqlite", "nats"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a fresh store, of each kind that processes can share."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path}/agents.db"
    return f"{request.getfixturevalue('jetstream')}&prefix=agents{next(_FRESH)}"
