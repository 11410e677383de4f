"""What the document about agents shows runs."""

from __future__ import annotations

import asyncio
import re
import textwrap
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[3] / "docs" / "agents.md"


def test_the_program_of_the_document_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever copies from the document would copy what does not work."""
    monkeypatch.chdir(tmp_path)
    pieces = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(pieces) >= 3
    names: dict[str, object] = {"__name__": "agents"}
    exec(compile(f"async def program():\n{textwrap.indent(''.join(pieces), '    ')}", str(DOCUMENT), "exec"), names)
    program = names["program"]
    assert callable(program)
    asyncio.run(asyncio.wait_for(program(), 60.0))
