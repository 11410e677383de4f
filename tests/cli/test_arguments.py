"""Flags: what they read, and the sentence for what they cannot read."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from antiphon.cli import arguments


@pytest.mark.parametrize(("text", "expected"), [("5", range(5, 6)), ("0:200", range(200)), (" 7:8 ", range(7, 8))])
def test_seeds_are_half_open_ranges(text: str, expected: range) -> None:
    """A replayed seed would be another world than the one that failed."""
    assert arguments.seeds(text) == expected


@pytest.mark.parametrize("text", ["5:1", "5:5", "x", "", "1:", ":5", "-1:3", "1:2:3", "0:99999999999", "1.5", "٣:٥x"])
def test_malformed_seeds_are_refused_with_an_example(text: str) -> None:
    """A typing mistake would run nothing, or run for a year, without a word."""
    with pytest.raises(typer.BadParameter) as refusal:
        arguments.seeds(text)
    assert "--seeds" in refusal.value.format_message()


@pytest.mark.parametrize(
    ("text", "expected"), [("20ms:200ms", (0.02, 0.2)), ("1s:1.5s", (1.0, 1.5)), ("5ms", (0.005, 0.005)), ("0:0.1", (0.0, 0.1))]
)
def test_intervals_have_units(text: str, expected: tuple[float, float]) -> None:
    """A delay in milliseconds would be taken for seconds."""
    assert arguments.interval(text, "--delay") == pytest.approx(expected)


@pytest.mark.parametrize("text", ["200ms:20ms", "fast", "20 parsecs", ":", "1e9", "-5ms:5ms"])
def test_malformed_intervals_are_refused(text: str) -> None:
    """A delay that was misread would silently change what is measured."""
    with pytest.raises(typer.BadParameter) as refusal:
        arguments.interval(text, "--delay")
    assert "--delay" in refusal.value.format_message()


def test_a_file_that_cannot_be_written_is_found_before_the_work(tmp_path: Path) -> None:
    """Somebody would wait for minutes and then lose the picture to a typing mistake."""
    good = tmp_path / "picture.svg"
    assert arguments.writable(good, "--plot", (".svg",)) == good
    for path, word in ((tmp_path / "picture.gif", "end the file"), (tmp_path / "no" / "p.svg", "create it first")):
        with pytest.raises(typer.BadParameter, match=word):
            arguments.writable(path, "--plot", (".svg",))
    with pytest.raises(typer.BadParameter, match="no such file"):
        arguments.existing(tmp_path / "missing.txt", "SCENARIO")
    with pytest.raises(typer.BadParameter, match="not a file"):
        arguments.existing(tmp_path, "SCENARIO")
