"""`antiphon doctor`: what it finds, on machines that are well and on machines that are not."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli import diagnosis
from antiphon.cli.diagnosis import FAIL, OK, WARN
from antiphon.cli.main import BROKEN, UNUSABLE, main
from antiphon.cli.reachability import reach
from antiphon.runtime.node import Node
from antiphon.runtime.security import PreSharedKey

KEY, OTHER = PreSharedKey(bytes(range(32))), PreSharedKey(bytes(range(32, 64)))


def found(capsys: pytest.CaptureFixture[str]) -> dict[str, list[dict[str, str]]]:
    """What `--json` printed, by check."""
    told = json.loads(capsys.readouterr().out)
    by_check: dict[str, list[dict[str, str]]] = {}
    for finding in told["findings"]:
        by_check.setdefault(finding["check"], []).append(finding)
    assert told["ok"] == all(finding["status"] != FAIL for finding in told["findings"])
    return by_check


def test_this_machine_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    """The doctor would send away people who are well."""
    assert main(["doctor", "--no-multicast", "--json"]) == 0
    checks = found(capsys)
    assert set(checks) == {"python", "msgspec", "event loop", "extras", "tcp port", "udp port", "udp buffer", "open files", "clock"}
    assert "cli" in checks["extras"][0]["says"]
    assert main(["doctor", "--no-multicast"]) == 0
    assert "ok   python: Python" in capsys.readouterr().out


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_a_port_that_is_taken_is_found(transport: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A node would fail to start, and nobody would know why."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM if transport == "tcp" else socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        if transport == "tcp":
            taken.listen()
        port = taken.getsockname()[1]
        assert main(["doctor", "--no-multicast", "--json", "--transport", transport, "--bind", f"127.0.0.1:{port}"]) == BROKEN
    (finding,) = found(capsys)[f"{transport} port"]
    assert (finding["status"], str(port) in finding["says"]) == (FAIL, True)
    assert "0 is any free one" in finding["next"]
    assert main(["doctor", "--no-multicast", "--json", "--transport", transport, "--bind", f"127.0.0.1:{port}"]) == 0
    assert "is free" in found(capsys)[f"{transport} port"][0]["says"]


def test_a_key_is_made_once_and_is_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """People would make keys by hand, and weak ones; or lose the one that all nodes have to a second try."""
    file = tmp_path / "node.key"
    assert main(["doctor", "key", "--out", str(file), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made == {"file": str(file), "fingerprint": PreSharedKey.from_file(file).fingerprint}
    assert file.stat().st_mode & 0o777 == 0o600
    before = file.read_text()
    assert main(["doctor", "key", "--out", str(file)]) == UNUSABLE
    assert "never overwritten" in capsys.readouterr().err
    assert file.read_text() == before
    assert main(["doctor", "--no-multicast", "--json", "--key-file", str(file)]) == 0
    assert [finding["status"] for finding in found(capsys)["key"]] == [OK]
    file.chmod(0o644)
    assert main(["doctor", "--no-multicast", "--json", "--key-file", str(file)]) == 0
    assert [finding["status"] for finding in found(capsys)["key"]] == [OK, WARN]
    assert main(["doctor", "key"]) == main(["doctor", "key"]) == 0
    first, second = capsys.readouterr().out.split()
    assert first != second
    assert len(first) >= 43


@pytest.mark.parametrize("content", ["hunter2", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", None])
def test_a_weak_key_is_found(content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A password would pass for a key, and whoever records one datagram could guess it."""
    file = tmp_path / "node.key"
    if content is not None:
        file.write_text(content)
    assert main(["doctor", "--no-multicast", "--json", "--key-file", str(file), "--seed", "127.0.0.1:9"]) == BROKEN
    checks = found(capsys)
    (finding,) = checks["key"]
    assert finding["status"] == FAIL
    assert finding["next"].startswith("antiphon doctor key")
    assert content is None or content not in finding["says"]
    assert "want of the key" in checks["seed 127.0.0.1:9"][0]["says"]


@pytest.mark.parametrize("transport", ["tcp", "udp"])
@pytest.mark.parametrize(("theirs", "ours", "status"), [(None, None, OK), (KEY, KEY, OK), (KEY, OTHER, "bad"), (KEY, None, "bad")])
def test_a_seed_is_asked(transport: str, theirs: PreSharedKey | None, ours: PreSharedKey | None, status: str) -> None:
    """Somebody would search the network for a mistake that is in the key, or the key for one in the network."""
    more: dict[str, Any] = {"multicast": None} if transport == "udp" else {}

    async def story() -> diagnosis.Finding:
        async with Node("ana", transport=transport, bind="127.0.0.1:0", credentials=theirs, **more) as ana:
            await ana.create("trip")
            return await reach(ana.address, transport, ours, 20.0 if status == OK else 1.0)

    finding = asyncio.run(story())
    assert (finding.status == OK) == (status == OK), finding
    assert ("trip" in finding.says) == (status == OK)
    assert status == OK or "--key-file" in finding.next


def test_a_seed_that_is_not_there_is_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """Everything that does not answer would look the same."""
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as free:
        closed = free.getsockname()[1]
        free.close()
        seeds = [f"127.0.0.1:{closed}", f"127.0.0.1:{silent.getsockname()[1]}", "no-such-host.invalid:4040"]
        flags = [flag for seed in seeds for flag in ("--seed", seed)]
        assert main(["doctor", "--no-multicast", "--json", "--transport", "tcp", "--timeout", "1", *flags]) == BROKEN
    checks = found(capsys)
    assert ["refused" in checks[f"seed {seeds[0]}"][0]["says"], "nobody answers" in checks[f"seed {seeds[1]}"][0]["says"]] == [True, True]
    assert checks[f"seed {seeds[2]}"][0]["status"] == FAIL


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("doctor --transport pigeon", "choose udp or tcp"),
        ("doctor --bind here", "host:port"),
        ("doctor --seed here", "host:port"),
        ("doctor --timeout 0", "60 seconds"),
        ("doctor cough", "No such command"),
    ],
)
def test_what_cannot_be_asked_is_refused(line: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A typing mistake would be taken for an illness of the machine."""
    assert main(line.split()) == UNUSABLE
    assert hint in " ".join(capsys.readouterr().err.split())


def test_an_unwell_machine_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The doctor would say that everything is fine until the node fails."""
    monkeypatch.setattr(diagnosis, "version", lambda package: {"msgspec": "0.18.6"}.get(package, "1.0"))
    monkeypatch.setattr(diagnosis, "_is_installed", lambda package: False)
    monkeypatch.setattr(diagnosis, "granted", lambda sock: (100_000, 100_000))
    monkeypatch.setattr(diagnosis, "_NOT_BEFORE_S", 1e12)
    monkeypatch.setattr(diagnosis, "_LEAST_FILES", 1 << 40)
    monkeypatch.setattr(diagnosis, "_PYTHON", (9, 0))
    assert main(["doctor", "--no-multicast", "--json"]) == BROKEN
    checks = {check: findings[0] for check, findings in found(capsys).items()}
    statuses = {check: finding["status"] for check, finding in checks.items()}
    assert statuses | {"python": FAIL, "msgspec": FAIL, "clock": FAIL, "event loop": WARN, "udp buffer": WARN} == statuses
    assert [check for check, finding in checks.items() if finding["status"] != OK and not finding["next"]] == []
    assert "pip install 'antiphon[" in checks["extras"]["next"]


@pytest.fixture
def namespace() -> Any:
    """Runs a program where there is no network but loopback and one that leads nowhere."""
    made = subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False) if sys.platform == "linux" else None
    if made is None or made.returncode:
        pytest.skip("this machine does not let us make a network namespace")
    link = "ip link add far type veth peer name near && ip addr add 10.99.0.1/24 dev far"
    setup = f"ip link set lo up && {link} && ip link set far up && ip link set near up"

    def run(arguments: str) -> subprocess.CompletedProcess[str]:
        program = "import sys; from antiphon.cli.main import main; sys.exit(main())"
        shell = f'{setup} && "{sys.executable}" -c "{program}" {arguments}'
        return subprocess.run(["unshare", "-n", "bash", "-c", shell], capture_output=True, text=True, timeout=60, check=False)

    return run


def test_multicast_is_tried_on_each_interface(namespace: Any) -> None:
    """People would learn that there is no multicast only from nodes that do not find each other."""
    done = namespace("doctor --json")
    if done.returncode not in (0, BROKEN):
        pytest.skip(f"no interface could be made: {done.stderr}")
    says = [finding["says"] for finding in json.loads(done.stdout)["findings"] if finding["check"] == "multicast"]
    assert any("far (10.99.0.1)" in each for each in says), says
    assert any("not tested" in each for each in says)
