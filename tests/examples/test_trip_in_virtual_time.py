"""The example of programs in virtual time runs as its first lines say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "trip_in_virtual_time.py"


def run(hashes: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hashes}
    done = subprocess.run([sys.executable, str(EXAMPLE)], env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_trip_is_the_same_every_time() -> None:
    """The first program that somebody copies would fail, or print something else on their machine."""
    printed = run("1")
    assert printed == run("2")
    for name in ("ana", "ben", "cleo"):
        assert re.search(rf"{name} +reads ben:1 \(answers ana:1\): b'Yes, in March'", printed)
    assert re.search(r"cleo sees view \d+ \[cleo\]", printed)
    assert re.search(r"ana +sees view \d+ \[ana ben cleo\] \(a merge\)", printed)
    assert "ana  reads cleo:1: b'Is anybody there?', which comes late" in printed
    assert "cleo has the reply of ana: window, please" in printed
    tree = printed.partition("as a tree:\n")[2]
    assert tree == "  ana: Did you visit Delhi?\n      ben: Yes, in March\n  cleo: Is anybody there?\n"
