"""What every test shares: generated examples are the same in every run, no test is judged by how long it took, and where data is that
the project does not bring along."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("suite", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


@pytest.fixture
def annotated_chat() -> Path:
    """A large real conversation, made by others. It may not be committed, so a test that wants it can run only where somebody has put
    it; the same code is tested everywhere on the conversation that the project ships."""
    data = Path(os.environ.get("ANTIPHON_DATA", Path(__file__).parents[2] / "shared" / "data"))
    chat = data / "irc" / "messages.jsonl.gz"
    if not chat.exists():
        pytest.skip("the annotated chat is not on this machine; set ANTIPHON_DATA to the folder that holds irc/")
    return chat


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No garbage is collected during a test that parses sources. In some releases of Python 3.11 and 3.12 `ast.parse` raises SystemError
    ("AST constructor recursion depth mismatch") when a collection in its middle runs something that parses, too, as formatting a traceback
    does."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
