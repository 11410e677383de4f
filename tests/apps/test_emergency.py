"""The emergency services, as processes, on both stores that processes can share."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from antiphon.apps.emergency import Crash, Dispatch, Story
from antiphon.apps.emergency.scene import dispatch
from antiphon.store import Value


@pytest.fixture(params=["sqlite", "nats"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:{tmp_path}/emergency.db"
        return
    if find_spec("nats") is None:
        pytest.skip("nats-py is not installed: pip install 'antiphon[nats]'")
    from antiphon.store.jetstream import LocalServers

    with LocalServers(1, tmp_path) as servers:
        yield servers.url


def test_nobody_misses_a_call(url: str) -> None:
    """An ambulance whose radio was dead would never hear of those who were hurt meanwhile; or two would be sent to one."""
    told: list[str] = []
    assert asyncio.run(Story(url, told.append).tell()) == {"cops": [1, 2, 3, 4], "ambulance": [1, 2, 4], "fire": [2]}
    assert any("read call 4: 4 hurt at Third and Oak" in line for line in told)
    assert not any("missing" in line for line in told)


def test_whom_a_crash_concerns() -> None:
    """The fire brigade would be sent to every scratch."""
    state, said = dispatch(Value(9, 0, Crash("the bridge", hurt=2)), 3)
    assert state == 4
    assert list(said) == [
        ("cops", Dispatch(4, "the bridge", "close the road")),
        ("ambulance", Dispatch(4, "the bridge", "2 hurt")),
    ]


def test_the_example_runs() -> None:
    """The first thing that a newcomer tries would fail."""
    example = Path(__file__).parents[2] / "examples" / "emergency.py"
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=120, env=dict(os.environ), check=False)
    assert done.returncode == 0, done.stderr
    assert "has missed none" in done.stdout
