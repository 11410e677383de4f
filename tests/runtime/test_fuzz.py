"""A live node under everything that strangers can throw at it, in a small dose; `benchmarks/fuzz_node.py` has the large ones."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("cryptography", reason="the fuzzer seals frames with wrong keys, for which it needs cryptography")

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "fuzz_node.py"
FRAMES = 20_000
COUNTED = {
    "udp": {"malformed", "unknown_version", "g: stranger", "transport: datagram_malformed", "transport: reassembly_full"},
    "tcp": {"malformed", "unknown_version", "g: stranger", "transport: oversized", "transport: bad_address"},
    "udp with a key": {"security: no_key", "security: wrong_key", "security: forged", "security: malformed", "transport: part_again"},
    "tcp with a key": {"security: no_key", "security: wrong_key", "security: forged", "security: malformed", "security: replayed"},
}
"""Some of the reasons under which what came must have been dropped."""


@pytest.mark.parametrize("case", COUNTED)
def test_a_group_survives_whatever_is_thrown_at_one_of_its_nodes(case: str) -> None:
    """Whoever can reach a port could crash a node, fill its memory, or part, stop or disorder its group; with a key, even disturb it."""
    options = ["--transport", case[:3], *(["--key"] if "key" in case else [])]
    command = [sys.executable, str(PROGRAM), "--frames", str(FRAMES), *options, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.stdout, done.stderr
    result = json.loads(done.stdout)
    assert result["failures"] == []
    assert done.returncode == 0
    assert result["frames"] >= FRAMES
    assert sum(result["drops"].values()) > FRAMES / 2
    assert COUNTED[case] <= set(result["drops"])


def test_a_node_that_dies_of_it_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The siege would be called survived by a node that did not survive it."""
    program = _program(monkeypatch)

    def throw(siege: Any, frames: int, began: float) -> Any:
        siege._company.processes["ben"].kill()
        return siege._report()

    monkeypatch.setattr(program._Siege, "_throw", throw)
    result = program.besiege(tmp_path, "tcp", 10, 1, guarded=False)
    assert result["failures"] == ["ben ended with exit code -9"]


def test_a_node_that_grows_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leak of a few bytes per frame would go unnoticed until a node has been up for a month."""
    program = _program(monkeypatch)
    sizes = [{"rss_mb": size} for size in (30.0, 100.0, 110.0, 130.0)]
    assert program._growth(sizes[0], sizes[1], sizes[2]) == []
    assert program._growth(sizes[1], sizes[1], sizes[3]) == ["the target still grew by 30 MB in the second half"]
    assert program._growth(sizes[0], sizes[2], sizes[3]) == ["the target grew by 100 MB, above 96"]


def _program(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(PROGRAM.parent))
    spec = importlib.util.spec_from_file_location("antiphon_fuzz_node", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
