"""What happens in a world comes from its seed alone: the same run, looked at from another process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

FINGERPRINT = """
import hashlib, runpy, sys
world = runpy.run_path(sys.argv[1])["busy_world"](int(sys.argv[2]))
counts = [sorted(table.items()) for table in (world.frames, world.bytes, world.drops)]
print(hashlib.sha256(repr((world.logs, counts)).encode()).hexdigest())
"""


@pytest.fixture
def fingerprint(request: pytest.FixtureRequest) -> Callable[[str, int], str]:
    """Everything that happens in the `busy_world` of the test's own file, for a hash seed and a seed, as a number."""

    def look(hash_seed: str, seed: int) -> str:
        environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
        command = [sys.executable, "-c", FINGERPRINT, str(request.path), str(seed)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120).stdout

    return look
