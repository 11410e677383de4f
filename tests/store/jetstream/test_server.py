from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from textwrap import dedent

import pytest

from antiphon.errors import BadStore, InvalidOption
from antiphon.store.jetstream import JetStreamBackend, LocalServers
from antiphon.store.records import Entry

Opening = Callable[[str], AbstractAsyncContextManager[JetStreamBackend]]


def test_the_configuration_we_ship_syncs_always_and_listens_to_nobody_else(tmp_path: Path) -> None:
    """What was acknowledged in the last two minutes would be lost with the power; or the whole network could write."""
    servers = LocalServers(3, tmp_path)
    for number in range(3):
        text = servers.configuration(number)
        assert "sync_interval: always" in text
        assert f'listen: "127.0.0.1:{servers.ports[number]}"' in text
        assert "0.0.0.0" not in text
    assert "sync=always" in servers.url
    assert "replicas=3" in servers.url


def test_a_killed_server_has_everything_when_it_is_back(own_server: LocalServers, opening: Opening) -> None:
    """A development server would be a toy that forgets."""

    async def publish() -> None:
        async with opening(own_server.url) as backend:
            await backend.publish(await backend.register("t", "p"), 1, [Entry(b"kept"), Entry(b"too")])
            own_server.kill(0)

    async def read() -> None:
        async with opening(own_server.url) as backend:
            chunk = await (await backend.reader("t", 0)).take(10, 0)
            assert [value.data for value in chunk.values] == [b"kept", b"too"]

    asyncio.run(publish())
    assert own_server.processes == {}
    own_server.start(0)
    asyncio.run(read())


def test_stopping_leaves_no_process(tmp_path: Path) -> None:
    """Every run of the tests would leave a server behind."""
    with LocalServers(1, tmp_path) as servers:
        (process,) = servers.processes.values()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process die with its parent")
def test_servers_die_with_whoever_started_them(tmp_path: Path) -> None:
    """A test that was killed would leave servers behind, which hold its ports and its disk."""
    program = dedent("""
        import sys, time
        from antiphon.store.jetstream import LocalServers
        servers = LocalServers(1, sys.argv[1])
        servers.start()
        print(servers.processes[0], flush=True)
        time.sleep(60)
    """)
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        process = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return
        status = Path(f"/proc/{process}/stat")
        if status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    os.kill(process, signal.SIGKILL)
    pytest.fail("the server has outlived its parent")


def test_what_cannot_be_started_says_why(tmp_path: Path) -> None:
    """One would wait for a server that cannot come up."""
    with pytest.raises(InvalidOption, match="cluster of three"):
        LocalServers(2, tmp_path)
    with pytest.raises(InvalidOption, match="one port for each"):
        LocalServers(3, tmp_path, ports=[4222])
    with LocalServers(1, tmp_path / "one") as running:
        rival = LocalServers(1, tmp_path / "two", ports=running.ports)
        with pytest.raises(BadStore, match="another program uses its port"):
            rival.start()
        rival.stop()


def test_a_directory_is_served_once_at_a_time(tmp_path: Path) -> None:
    """Two servers would write to the same files, and neither could be started from them again."""
    with LocalServers(1, tmp_path) as running:
        rival = LocalServers(1, tmp_path)
        with pytest.raises(BadStore, match="already"):
            rival.start()
        rival.stop()
        running.kill(0)
        with pytest.raises(BadStore, match="already"):
            rival.start()  # the one that is down will be started again by whom it belongs to
        running.start(0)
    with rival:
        assert len(rival.processes) == 1
