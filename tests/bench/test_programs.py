"""The programs in `benchmarks/` that run real nodes: their help and their arguments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize(
    ("program", "arguments", "complaint"),
    [
        ("restarts.py", ["--restarts", "0"], "argument --restarts: give at least 1, not 0"),
        ("restarts.py", ["--restarts", "many"], "argument --restarts: invalid int value: 'many'"),
        ("restarts.py", ["--minutes", "-1"], "argument --minutes: give more than 0 and at most 1,440, not -1"),
        ("restarts.py", ["--minutes", "nan"], "argument --minutes: give more than 0 and at most 1,440, not nan"),
        ("evictions.py", ["--runs", "0"], "argument --runs: give at least 1, not 0"),
        ("evictions.py", ["--batch", "0"], "argument --batch: give at least 1, not 0"),
        ("evictions.py", ["--order", "alphabetical"], "alphabetical"),
        ("evictions.py", ["--slow-s", "-3"], "slow_s"),
        ("evictions.py", ["--window", "0"], "window"),
        ("evictions.py", ["--inbox", "0"], "inbox_messages"),
        ("evictions.py", ["--limit-s", "0"], "argument --limit-s: give more than 0, not 0"),
        ("evictions.py", ["--bytes", "-1"], "argument --bytes: give at least 1, not -1"),
        ("evictions.py", ["--bytes", "30000000"], "argument --bytes: give at most 20,971,520, not 30,000,000"),
    ],
)
def test_bad_arguments_are_refused_before_a_process_starts(program: str, arguments: list[str], complaint: str) -> None:
    """A run without restarts or evictions would report success, and a wrong option would end in a traceback after minutes."""
    command = [sys.executable, str(PROGRAMS / program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("program", ["restarts.py", "evictions.py"])
def test_help_describes_the_program(program: str) -> None:
    """An operator would have to read the source."""
    command = [sys.executable, str(PROGRAMS / program), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0
    assert f"python benchmarks/{program}" in done.stdout
    assert "xits with status 1" in " ".join(done.stdout.split())
