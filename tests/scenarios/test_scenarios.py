"""Every scenario file beside this one is a test. To record what they print now: `antiphon sim run FILE --rewrite`, and read the diff."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.sim.scenario import run_file

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_scenario_goes_as_it_is_written_down(file: Path) -> None:
    """A story that users and documents rely on would end differently."""
    result = run_file(file)
    assert result.ok, "\n".join([*result.differences, *map(str, result.violations)])


def test_there_are_scenarios() -> None:
    """The suite would pass because it found nothing to run."""
    assert len(FILES) >= 15
