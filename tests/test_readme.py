"""The README's example is run, so that what a newcomer copies works."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_example_runs_and_shows_the_question_before_the_answer() -> None:
    """The first thing that somebody tries would fail, or show the opposite of what the text says."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert "Did you visit Delhi?" in first
    assert "'Yes', an answer to cem:1" in second


def test_the_links_lead_somewhere() -> None:
    """A reader who wants to know more would meet a missing page."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    missing = [link for link in re.findall(r"\]\(([^)#:]+)\)", text) if not (ROOT / link).exists()]
    assert missing == []
