"""The programs that the README prints, run as it says: in two terminals of one machine, and on two machines."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

TEXT = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
ANA, BEN = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)[:2]


@pytest.mark.parametrize("hosts", [1, 2], ids=["in two terminals", "on two machines"])
def test_what_a_newcomer_copies_works(network: Any, tmp_path: Path, hosts: int) -> None:
    """The first minute with Antiphon would be the last."""
    for name, program in (("ana", ANA), ("ben", BEN)):
        (tmp_path / f"{name}.py").write_text(program)
    with network(hosts) as machines:
        ana, ben = (
            machines.start(
                host, [sys.executable, "-u", str(tmp_path / f"{name}.py")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            for name, host in (("ana", 0), ("ben", hosts - 1))
        )
        told = {process: [process.stdout.readline() for _ in range(3)] for process in (ana, ben)}
        for process in (ana, ben):
            process.send_signal(signal.SIGINT)
            told[process] += process.communicate(timeout=30)[0].splitlines()
            assert process.returncode == 130
    for lines in told.values():
        assert re.match(r"ana#\w+ b'Did you visit Delhi\?' None", lines[0])
        assert sorted(line.partition(" ")[2].strip() for line in lines[1:3]) == ["b'Not yet' ana:1", "b'Yes' ana:1"]
        assert lines[3:] == [], "Ctrl-C ends it without a word"


def test_they_may_be_started_in_any_order_and_killed(network: Any, tmp_path: Path) -> None:
    """The reader is told to kill one and start it again: it would be alone, in a second group of the same name."""
    for name, program in (("ana", ANA), ("ben", BEN)):
        (tmp_path / f"{name}.py").write_text(program)
    with network(1) as machines:

        def start(name: str) -> Any:
            argv = [sys.executable, "-u", str(tmp_path / f"{name}.py")]
            return machines.start(0, argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

        ben = start("ben")
        time.sleep(2.0)
        ana = start("ana")
        first = [ben.stdout.readline() for _ in range(3)]
        assert re.match(r"ana#\w+ b'Did you visit Delhi\?' None", first[0]), first
        ana.kill()
        ana.wait(10)
        again = start("ana")
        second = [ben.stdout.readline() for _ in range(3)]
        assert re.match(r"ana#\w+ b'Did you visit Delhi\?' None", second[0]), second
        assert second[0].split()[0] != first[0].split()[0]
        ben.kill()
        ben.wait(10)
        returned = start("ben")
        assert re.match(r"ana#\w+ b'Did you visit Delhi\?' None", returned.stdout.readline())
        for process in (again, returned):
            process.kill()
            process.wait(10)
