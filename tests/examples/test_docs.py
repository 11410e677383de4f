"""The documents are held against the code: what they name exists, and what they show runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

import pytest

from antiphon import errors
from antiphon.bench import membership
from antiphon.cli.main import OK, main
from antiphon.errors import InvalidOption
from antiphon.model.codec import Frame
from antiphon.model.control import CONTROL_KINDS
from antiphon.model.events import Event
from antiphon.model.frames import KINDS
from antiphon.model.options import GroupOptions, Settings
from antiphon.protocol.registry import MULTICASTS, ORDERS, stages
from antiphon.protocol.stage import Ordering
from antiphon.sim import oracles
from antiphon.sim.oracles import ORACLES, PROMISES, REPAIRED
from antiphon.store.groups.record import GroupRecord
from antiphon.store.opening import backend_for
from antiphon.store.records import TopicOptions
from antiphon.store.settings import StoreSettings

OF_GROUPS = {name for name in oracles.__all__ if name.islower() and not name.startswith("check") and name != "promised"}
"""All oracles, those included that judge only groups whose members make their views."""
ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    "agents",
    "architecture",
    "benchmarks",
    "guarantees",
    "guide",
    "membership",
    "metrics",
    "node",
    "security",
    "topics",
    "write-an-ordering",
)


def text_of(document: str) -> str:
    return (ROOT / "docs" / f"{document}.md").read_text(encoding="utf-8")


def cards() -> dict[str, str]:
    """The text of each card of the guarantees, by its heading."""
    pieces = re.split(r"^## (.+)$", text_of("guarantees"), flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_somewhere(document: str) -> None:
    """A reader who wants to know more would meet a missing page."""
    links = re.findall(r"\]\(([^)#:]+)[^)]*\)", text_of(document))
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_test_that_is_named_exists(document: str) -> None:
    """A promise that points to a test which is gone is a promise that nobody checks."""
    named = re.findall(r"`(tests/[\w./-]+?)(?:::(\w+))?`", text_of(document))
    for path, test in named:
        assert (ROOT / path).exists(), path
        assert not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{test}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_of_the_package_that_is_named_exists(document: str) -> None:
    """Whoever looks for a sentence's proof in the code would look in vain."""
    source = ROOT / "src" / "antiphon"
    files = {path.relative_to(source).as_posix() for path in source.rglob("*.py")}
    elsewhere = ("tests/", "examples/", "benchmarks/")
    named = [name for name in re.findall(r"`([\w/]+\.py)`", text_of(document)) if not name.startswith(elsewhere)]
    assert [name for name in named if not any(file == name or file.endswith(f"/{name}") for file in files)] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_counter_and_every_part_of_a_class_that_is_named_exists(document: str) -> None:
    """An operator would watch a counter that nobody counts, an author override a method that nobody calls."""
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "antiphon").rglob("*.py"))
    counters = set(re.findall(r'drops\["(\w+)"\]', text_of(document)))
    assert [counter for counter in sorted(counters) if f'"{counter}"' not in source] == []
    for name, part in re.findall(r"`([A-Z]\w+)\.(\w+)", text_of(document)):
        assert f"class {name}" in source, name
        assert re.search(rf"def {part}\(|self\.{part}\b|^ {{4}}{part}\b", source, flags=re.MULTILINE), f"{name}.{part}"


def test_the_table_of_frames_is_the_codecs() -> None:
    """Whoever writes a second implementation from the page would leave out a field."""
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| `([\w-]+)` \| (.+) \|$", text_of("architecture"), flags=re.MULTILINE)
    told = {frame: (int(tag), word, set(re.findall(r"`(\w+)`", fields))) for tag, frame, word, fields in rows}
    kinds = KINDS | CONTROL_KINDS
    frames = get_args(Frame)
    assert set(told) == {frame.__name__ for frame in frames}
    for frame in frames:
        tag, word, fields = told[frame.__name__]
        assert (tag, word) == (frame.__struct_config__.tag, kinds[frame.__struct_config__.tag]), frame.__name__
        assert set(frame.__struct_fields__) - {"group", "sender", "member", "view"} <= fields, frame.__name__


def test_everything_an_ordering_may_override_is_told() -> None:
    """An author would not find the method that the order needs, and work around it."""
    told = text_of("write-an-ordering")
    parts = [name for name in vars(Ordering) if not name.startswith("_")]
    assert [name for name in parts if not re.search(rf"`{name}\b", told)] == []


def test_every_bound_that_a_card_names_is_a_setting() -> None:
    """A user would turn a knob that does not exist."""
    knobs = set(re.findall(r"`(\w+_(?:s|bytes|messages|frames))`", "".join(map(text_of, ("guarantees", "architecture", "membership")))))
    kinds = (Settings, GroupOptions, StoreSettings, TopicOptions, GroupRecord)
    assert knobs - {"stamp_bytes"} <= {name for kind in kinds for name in kind.__struct_fields__}


def test_every_setting_and_option_of_membership_is_told() -> None:
    """An operator would find in the code a knob of which no page says what it does."""
    told = set(re.findall(r"`(?:GroupOptions\()?(\w+)(?:=[^`]*)?`", "".join(map(text_of, ("guarantees", "architecture", "membership")))))
    assert {*Settings.__struct_fields__, *GroupOptions.__struct_fields__} - told == set()


def test_the_events_of_a_merge_are_told_by_their_names() -> None:
    """An application would wait for an event that has another name."""
    told = set(re.findall(r"`([A-Z]\w+)[`(]", text_of("membership")))
    assert {event.__name__ for event in get_args(Event) if isinstance(event, type)} - told <= {"Orphaned", "Writable"}


def test_there_is_a_card_for_every_order_and_multicast_and_it_names_its_oracles() -> None:
    """A user would choose a kind whose promise is written nowhere, or is judged otherwise than it is written."""
    told = cards()
    for order in ORDERS:
        assert PROMISES[order] - {"integrity", "no_duplication", "validity"} <= set(re.findall(r"`(\w+)`", told[order])), order
    for multicast in MULTICASTS:
        own = REPAIRED if multicast != "besteffort" else {"integrity", "no_duplication"}
        assert own <= set(re.findall(r"`(\w+)`", told[multicast])), multicast
    for line in re.findall(r"^\| oracle \| (.+) \|$", text_of("guarantees"), flags=re.MULTILINE):
        assert {name for name in re.findall(r"`(\w+)`", line) if name != "delivery"} <= {*ORACLES, *OF_GROUPS}, line


def test_every_oracle_of_groups_has_a_card() -> None:
    """A promise would be judged that is written nowhere, so nobody could rely on it."""
    lines = "".join(re.findall(r"^\| oracle \| (.+) \|$", text_of("guarantees"), flags=re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", lines)) >= {*ORACLES, *OF_GROUPS}


def test_the_tables_of_options_and_settings_show_the_defaults() -> None:
    """An operator would calculate with a time-out that is not the one in force."""
    rows = dict(
        re.findall(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \|", text_of("guarantees").partition("# Options and settings")[2], flags=re.MULTILINE)
    )
    for kind in (Settings, GroupOptions):
        for name in kind.__struct_fields__:
            assert rows.pop(name).partition(";")[0] == shown(getattr(kind(), name)), name  # beyond the mark: what a transport prefers
    assert rows == {}


def shown(value: object) -> str:
    """A default as tables have it."""
    if value is False or value == "":
        return "no"
    return f"`{value}`" if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else f"{value:g}"


def test_the_tables_of_topics_show_what_is_in_force() -> None:
    """A program would be planned for values, batches or patience that its store does not have."""
    told = text_of("topics")
    limits = told.partition("## Limits")[2].partition("## Errors")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \|$", limits, flags=re.MULTILINE))
    assert rows == {name: shown(getattr(StoreSettings(), name)) for name in StoreSettings.__struct_fields__}
    backends = (backend_for("sqlite:field.db"), backend_for("nats://127.0.0.1:4222"), backend_for("memory:"))
    for what, limit in (("values in a batch", "batch_values"), ("bytes in a batch", "batch_bytes")):
        (row,) = re.findall(rf"^\| {what} \| (.+) \|$", told, flags=re.MULTILINE)
        assert row.split(" | ") == [f"{getattr(backend, limit):,}" for backend in backends], what
    (row,) = re.findall(r"^\| bytes of a value \| (.+) \|$", told, flags=re.MULTILINE)
    for cell, backend in zip(row.split(" | "), backends, strict=True):
        assert f"{backend.value_bytes:,}" in cell


def test_every_error_of_a_store_is_told() -> None:
    """An operator would meet an error of which no page says what to do."""
    told = set(re.findall(r"^\| `(\w+)` \|", text_of("topics").partition("## Errors")[2], flags=re.MULTILINE))
    of_stores = {"BadStore", "UnknownTopic", "TopicTaken", "Fenced", "StoreFull", "StoreUnreachable"}
    assert of_stores <= told
    assert [name for name in told if not hasattr(errors, name)] == []


def test_the_story_of_topics_runs_as_it_stands(tmp_path: Path) -> None:
    """Who copies from the page about topics would copy what does not work, or works otherwise than its comments say."""
    pieces = re.findall(r"```python\n(.*?)```", text_of("topics"), flags=re.DOTALL)
    story = textwrap.indent("\n".join([*pieces, "await store.close()"]), "    ")
    program = f"import antiphon\n\n\nasync def story():\n{story}\n\n\nantiphon.run(story())\n"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", re.findall(r"^antiphon (\w+ \w+[^#\n]*)", text_of("topics"), flags=re.MULTILINE))
def test_every_command_about_topics_exists_with_its_flags(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An operator would type what the page says and be told that there is no such thing."""
    words = shlex.split(command)
    assert main([*words[:2], "--help"]) == OK
    told = capsys.readouterr().out
    assert [word for word in words if word.startswith("--") and word not in told] == []


def test_the_table_of_combinations_is_the_registrys() -> None:
    """The table would promise a group that cannot be created, or hide one that can."""
    rows = dict(re.findall(r"^\| `(\w+)` \| ((?:yes|refused)[^\n]*) \|$", text_of("guarantees"), flags=re.MULTILINE))
    assert set(rows) == set(ORDERS)
    for order, row in rows.items():
        for multicast, cell in zip(MULTICASTS, row.split(" | "), strict=True):
            options = GroupOptions(order=order, multicast=multicast)
            if cell == "refused":
                with pytest.raises(InvalidOption):
                    stages(options)
            else:
                stages(options)


@pytest.mark.parametrize("document", ["membership", "write-an-ordering"])
def test_the_example_works_as_it_stands(document: str) -> None:
    """Who starts from an example that does not work goes away."""
    (example,) = re.findall(r"```python\n(.*?)```", text_of(document), flags=re.DOTALL)
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_the_lines_shown_of_the_example_are_in_it() -> None:
    """A walk through code that has changed since leads astray."""
    source = (ROOT / "examples" / "lamport_order.py").read_text(encoding="utf-8")
    body = {line.strip() for line in source.splitlines()}
    shown = re.findall(r"^ {8,}(\S.*)$", text_of("write-an-ordering").partition("## A real one")[2], flags=re.MULTILINE)
    shown += re.findall(r"^ {4}((?:ORDERS|PROMISES|ORACLES)\[.*)$", text_of("write-an-ordering"), flags=re.MULTILINE)
    assert len(shown) >= 9
    assert [line for line in shown if line.strip() not in body] == []


@pytest.mark.parametrize("picture", ["architecture", "change", "house", "partition"])
def test_the_pictures_stand_alone(picture: str) -> None:
    """A picture that fetches a font or a style is empty where there is no network, and tells others who reads it."""
    text = (ROOT / "docs" / f"{picture}.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    assert root.find("{http://www.w3.org/2000/svg}desc") is not None
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"href|url\(|@import|<script", text)


def test_the_table_of_costs_is_what_the_command_counts() -> None:
    """Somebody would plan a group with numbers of a protocol that has changed: run `antiphon bench membership` and write them anew."""
    rows = re.findall(
        r"^\| ([^|]*) \| (\d+) \| ([\d,.]+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", text_of("membership"), flags=re.MULTILINE
    )
    smallest = [[float(figure.replace(",", "")) for figure in row[2:]] for row in rows if row[1] == "10"]
    counted = {cost.what: [getattr(cost, measure) for measure in membership.MEASURES] for cost in membership.costs((10,))}
    assert len(rows) == len(membership.WHATS) * len(membership.SIZES)
    for what, shown in zip(membership.WHATS, smallest, strict=True):
        assert shown == pytest.approx(counted[what], rel=0.1, abs=2), what
