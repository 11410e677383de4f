"""What the README shows is run and looked up, so that what a newcomer copies works."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.cli.main import OK, main

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def run(example: str, where: Path | None = None) -> list[str]:
    done = subprocess.run([sys.executable, "-c", example], cwd=where, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_example_shows_what_the_text_says() -> None:
    """The first thing that somebody tries would fail, or show the opposite of what the text says."""
    *_, example = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    read, gone = run(example)
    assert read.endswith("ben reads ana:1: b'Did you visit Delhi?'")
    assert "ana sees that ben#" in gone


def test_the_topic_goes_on_where_it_was(tmp_path: Path) -> None:
    """Somebody would try durable topics and see everything twice, or nothing."""
    (example,) = (block for block in re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL) if "open_store" in block)
    assert run(example, tmp_path) == ["trip 1: two cars on the A1"]
    assert run(example, tmp_path) == ["trip 2: two cars on the A1"]


def test_two_commands_are_enough() -> None:
    """Somebody on a fresh machine would copy a command that is not there, or need one that is not shown."""
    shown = re.findall(r"^ {4}(\S.*)$", TEXT, flags=re.MULTILINE)
    assert shown[:2] == ["make demo", "make test"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in {command.split()[1] for command in re.findall(r"`(make \w+)`", TEXT) if command != "make"}:
        assert re.search(rf"^{target}:.*(setup|lint|##)", makefile, flags=re.MULTILINE), target
    assert re.search(r"^demo: setup ", makefile, flags=re.MULTILINE)
    assert re.search(r"^test: lint ", makefile, flags=re.MULTILINE)
    assert re.search(r"^lint: setup ", makefile, flags=re.MULTILINE)


@pytest.mark.parametrize("command", re.findall(r"`antiphon ([^`]+)`", TEXT))
def test_every_command_exists_with_its_flags(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A newcomer would be told that there is no such command."""
    words = shlex.split(command)
    assert main([*words[:2], "--help"]) == OK
    told = capsys.readouterr().out
    assert [flag for flag in words if flag.startswith("--") and flag not in told] == []
    assert [word for word in words[2:] if "/" in word and not (ROOT / word).is_file()] == []


def test_the_links_lead_somewhere() -> None:
    """A reader who wants to know more would meet a missing page."""
    links = re.findall(r"\]\(([^)#:]+)\)", TEXT)
    assert [link for link in links if not (ROOT / link).exists()] == []
    pages = ("guide", "security", "topics", "architecture", "guarantees", "write-an-ordering", "compare")
    assert {f"docs/{page}.md" for page in pages} <= set(links)
