"""Nodes whose credentials do not fit: the error of the join, the stats and the logs of both say so, and what to do."""

from __future__ import annotations

import asyncio
import importlib.util
import io
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography", reason="credentials need the package cryptography")

from antiphon.apps.chat.lobby import Lobby
from antiphon.errors import JoinFailed, SendRefused, TimedOut
from antiphon.model.ids import Address
from antiphon.model.refusals import PEERS_LIMIT, Refusals
from antiphon.runtime import logs
from antiphon.runtime.journal import Journal
from antiphon.runtime.node import Node
from antiphon.runtime.security import PreSharedKey

PATIENCE_S = 60.0
KEYS = {"none": None, "one": PreSharedKey("one-key-0123456789-abcdefgh"), "other": PreSharedKey("other-key-0123456789-zyxwvut")}


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = logs.configure(stream=stream)
    yield stream
    logs.LOGGER.removeHandler(handler)
    logs.LOGGER.propagate = True
    logs.LOGGER.setLevel(logging.NOTSET)


async def refused_join(ana: Node, ben: Node, *, both: bool = True) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """What the error says when `ben` tries to join a group of `ana`, and the stats of both, when `ben`, or both, have logged a refusal."""
    async with ana, ben:
        await ana.create("trip")
        with pytest.raises(JoinFailed) as failed:
            await ben.join("trip", at=[ana.address])

        async def they_have_logged() -> None:
            while not (ben._journal._refused and (ana._journal._refused or not both)):
                await asyncio.sleep(0.05)

        await asyncio.wait_for(they_have_logged(), PATIENCE_S)
        return str(failed.value), ana.stats(), ben.stats()


def nodes(transport: str, ana: dict[str, Any], ben: dict[str, Any]) -> tuple[Node, Node]:
    from antiphon.model.options import Settings

    settings = Settings(join_s=2.0, question_s=0.5)
    more: dict[str, Any] = {"bind": "127.0.0.1:0", "settings": settings} | ({"multicast": None} if transport == "udp" else {})
    return Node("ana", transport=transport, **more, **ana), Node("ben", transport=transport, **more, **ben)


@pytest.mark.parametrize("transport", ["tcp", "udp"])
@pytest.mark.parametrize(
    ("ana", "ben", "ana_says", "ben_says"),
    [("one", "other", "wrong_key", "wrong_key"), ("one", "none", "no_key", "sealed"), ("none", "one", "sealed", "no_key")],
)
def test_keys_that_do_not_fit_are_named(transport: str, ana: str, ben: str, ana_says: str, ben_says: str, log: io.StringIO) -> None:
    """A wrong key would look like a missing group: nobody answers, and nothing says why."""
    pair = nodes(transport, {"credentials": KEYS[ana]}, {"credentials": KEYS[ben]})
    error, ana_stats, ben_stats = asyncio.run(asyncio.wait_for(refused_join(*pair), PATIENCE_S))
    (place,) = ben_stats["refused_by_peer"]
    assert f"from {place} " in error
    assert "credentials" in error
    assert list(ana_stats["refused"]) == [ana_says]
    assert list(ben_stats["refused"]) == [ben_says]
    lines = [line for line in log.getvalue().splitlines() if "security.refused" in line]
    assert len([line for line in lines if "node=ana" in line]) == 1
    assert len([line for line in lines if "node=ben" in line and f"cause={ben_says}" in line and place in line]) == 1


@pytest.mark.parametrize(("ana", "ben", "cause"), [("one", None, "sealed"), (None, "one", "no_key"), ("one", "other", "wrong_key")])
def test_keys_of_a_group_that_do_not_fit_are_named(ana: str | None, ben: str | None, cause: str) -> None:
    """A group would be seen and could not be joined: nobody lets the node in, and nothing says why."""
    more: list[dict[str, Any]] = [{"keys": {"trip": KEYS[key]}} if key else {} for key in (ana, ben)]
    error, _, ben_stats = asyncio.run(asyncio.wait_for(refused_join(*nodes("tcp", *more), both=False), PATIENCE_S))
    assert "Refused so far: " in error
    assert cause in ben_stats["refused"]
    (place,) = ben_stats["refused_by_peer"]
    assert f"from {place} " in error


@pytest.mark.parametrize("call", ["ask_groups", "send_outside", "chat"])
def test_other_calls_name_keys_that_do_not_fit(call: str) -> None:
    """The node that is asked would look dead, and the group missing."""

    async def story() -> str:
        ana, ben = nodes("tcp", {"credentials": KEYS["one"]}, {"credentials": KEYS["other"]})
        async with ana, ben:
            await ana.create("trip")
            with pytest.raises(TimedOut):
                await ben.join("trip", at=[ana.address], timeout=1.0)  # so that something was refused
            calls: dict[str, Callable[[], Awaitable[Any]]] = {
                "ask_groups": lambda: ben.ask_groups(ana.address, timeout=0.5),
                "send_outside": lambda: ben.send_outside("trip", b"hello"),
                "chat": lambda: Lobby(ben).join("trip", timeout=0.5),
            }
            with pytest.raises((TimedOut, SendRefused, JoinFailed)) as failed:
                await calls[call]()
            return str(failed.value)

    error = asyncio.run(asyncio.wait_for(story(), PATIENCE_S))
    assert "Refused so far: " in error
    assert "sealed with another key" in error


def test_a_node_without_credentials_logs_that_once(log: io.StringIO) -> None:
    """Every other node of the network, and every minute, would have a line of its own."""
    refusals = Refusals()
    journal = Journal("ana", "udp", lambda: {**refusals.stats(), "drops": dict(refusals.by_cause)})
    for second in range(200):
        refusals.note(Address(f"10.0.0.{second % 4}:4040"), "sealed")
        journal.look(float(second))
    (line,) = log.getvalue().splitlines()
    assert "security.refused" in line
    assert "this node has no credentials" in line


def authority(folder: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location("antiphon_test_authority", Path(__file__).parent / "security" / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (folder / name).mkdir()
    return module.Authority(folder / name, name)


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_certificates_of_different_authorities_are_named(transport: str, tmp_path: Path, log: io.StringIO) -> None:
    """An authority file that was forgotten would look like a missing group."""
    ana = {"credentials": authority(tmp_path, "ours").issue("ana")}
    ben = {"credentials": authority(tmp_path, "theirs").issue("ben")}
    error, ana_stats, ben_stats = asyncio.run(
        asyncio.wait_for(refused_join(*nodes(transport, ana, ben), both=False), PATIENCE_S)
    )
    assert "certificate" in error
    assert set(ana_stats["refused"]) | set(ben_stats["refused"]) <= {"untrusted_certificate", "refused_by_peer", "no_tls"}
    assert "untrusted_certificate" in ben_stats["refused"] or "refused_by_peer" in ben_stats["refused"]


@pytest.mark.parametrize(("guarded", "cause"), [("ana", "no_tls"), ("ben", "tls")])
def test_certificates_and_none_are_named(guarded: str, cause: str, tmp_path: Path) -> None:
    """A node that was started without its certificates would see connections that come and go, and nothing else."""
    with_tls, without = {"credentials": authority(tmp_path, "ours").issue(guarded)}, {"short_way": False}
    ana, ben = nodes("tcp", *((with_tls, without) if guarded == "ana" else (without, with_tls)))

    async def refused() -> None:
        async with ana, ben:
            await ana.create("trip")
            with pytest.raises(JoinFailed):
                await ben.join("trip", at=[ana.address])
            while not ana.stats()["refused"]:
                await asyncio.sleep(0.05)
            assert ana.stats()["refused_by_peer"].keys() == {"127.0.0.1"}
            assert set(ana.stats()["refused"]) == {cause}

    asyncio.run(asyncio.wait_for(refused(), PATIENCE_S))


def test_peers_are_bounded_and_counts_are_kept() -> None:
    """A flood from made-up addresses would fill the memory, or the counts would go down with the addresses that are forgotten."""
    refusals = Refusals()
    for number in range(3 * PEERS_LIMIT):
        refusals.note(Address(f"10.0.0.7:{number}"), "wrong_key")
    assert refusals.by_cause == {"wrong_key": 3 * PEERS_LIMIT}
    assert len(refusals.by_peer) == PEERS_LIMIT
    assert refusals.note(Address(f"10.0.0.7:{3 * PEERS_LIMIT - 1}"), "wrong_key") == 2
    assert "2 frames from 10.0.0.7:191 are sealed with another key" in refusals.explain()
