"""Conversations: what is read, what is left out and counted, what is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from antiphon.errors import BadFile, InvalidOption
from antiphon.sim import conversation
from antiphon.sim.conversation import Line, load, shipped


def row(id: str, author: str | None = "ana", parents: tuple[str, ...] = (), text: str = "hello", **more: object) -> str:
    return json.dumps({"id": id, "author": author, "parents": parents, "text": text, **more}) + "\n"


@pytest.fixture
def write(tmp_path: Path):
    def write(*rows: str) -> Path:
        path = tmp_path / "talk.jsonl"
        path.write_text("".join(rows), encoding="utf-8")
        return path

    return write


def test_lines_come_in_file_order_and_other_fields_are_ignored(write):
    """A replay would answer questions that have not been asked, or refuse files with one field too many."""
    talk = load(write(row("1", time="18:02", kind="message"), "\n", row("2", "bo", ("1",), "grüezi")))
    assert talk.lines == (Line("1", "ana", (), "hello"), Line("2", "bo", ("1",), "grüezi"))
    assert (talk.name, talk.skipped, talk.dropped_parents) == ("talk.jsonl", 0, 0)


def test_gzip_is_known_by_its_content(tmp_path):
    """A packed file without the usual ending would be reported as damaged JSON."""
    path = tmp_path / "talk"
    path.write_bytes(gzip.compress((row("1") + row("2", "bo", ("1",))).encode()))
    assert [line.id for line in load(path).lines] == ["1", "2"]


def test_lines_without_author_are_skipped_and_counted_and_so_are_links_to_them(write):
    """A server's notices would be replayed as if a member had said them."""
    talk = load(write(row("1", None), row("2", "ana", ("1",)), row("3", "bo", ("2", "1"))))
    assert [(line.id, line.parents) for line in talk.lines] == [("2", ()), ("3", ("2",))]
    assert (talk.skipped, talk.dropped_parents) == (1, 2)


def test_parents_that_are_unknown_later_or_the_line_itself_are_dropped_and_counted(write):
    """A line would wait for ever for something that is never said before it."""
    talk = load(write(row("1", parents=("0",)), row("2", parents=("3", "1", "1")), row("3", parents=("3", "2"))))
    assert [line.parents for line in talk.lines] == [(), ("1",), ("2",)]
    assert talk.dropped_parents == 3


def test_limit_reads_no_further_than_it_must(write):
    """A quick look at a large file would read, and could fail on, all of it."""
    path = write(row("1"), row("2"), "this is no JSON\n")
    assert [line.id for line in load(path, limit=2).lines] == ["1", "2"]
    with pytest.raises(BadFile):
        load(path)
    with pytest.raises(InvalidOption, match="at least one line"):
        load(path, limit=0)


def test_part_drops_and_counts_links_that_lead_out_of_it(write):
    """A part would contain answers to lines that nobody says in it."""
    talk = load(write(row("1"), row("2", parents=("1",)), row("3", parents=("2", "1")), row("4", parents=("3",))))
    part = talk.part(1, 3)
    assert [(line.id, line.parents) for line in part.lines] == [("2", ()), ("3", ("2",))]
    assert part.dropped_parents == 2
    with pytest.raises(InvalidOption, match="part"):
        talk.part(3, 3)


def test_authors_take_seats_in_the_order_they_appear(write):
    """The same conversation would be spoken by other members in the next run, and no two runs could be compared."""
    talk = load(write(*(row(str(place), author) for place, author in enumerate("cabcda"))))
    assert talk.authors == ("c", "a", "b", "d")
    assert talk.seats(3) == {"c": 0, "a": 1, "b": 2, "d": 0}
    with pytest.raises(InvalidOption, match="members"):
        talk.seats(0)


@pytest.mark.parametrize(
    ("bad", "story"),
    [
        ("{", "truncated|object"),
        ("[1, 2]", "Expected `object`"),
        ('{"id": "2", "author": "ana", "text": "x"}', "missing required field `parents`"),
        ('{"author": "ana", "parents": [], "text": "x"}', "missing required field `id`"),
        ('{"id": "2", "parents": [], "text": "x"}', "missing required field `author`"),
        ('{"id": 2, "author": "ana", "parents": [], "text": "x"}', "Expected `str`"),
        ('{"id": "2", "author": "", "parents": [], "text": "x"}', "length >= 1"),
        ('{"id": "2", "author": "ana", "parents": "1", "text": "x"}', "Expected `array`"),
        ('{"id": "1", "author": "ana", "parents": [], "text": "x"}', "'1' was used before"),
        ("[" * 5_000, "object|recursion"),
    ],
)
def test_what_is_no_line_is_refused_with_its_number(write, bad, story):
    """Somebody with a broken file of a million lines would have to find the line alone."""
    with pytest.raises(BadFile, match=story) as caught:
        load(write(row("1"), bad + "\n"))
    assert (caught.value.file, caught.value.line) == ("talk.jsonl", 2)


def test_text_that_is_not_utf8_is_refused_with_its_line(tmp_path):
    """A file in another encoding would end in a traceback."""
    path = tmp_path / "talk.jsonl"
    path.write_bytes(row("1").encode() + row("2").encode().replace(b"hello", b"gr\xfcezi"))
    with pytest.raises(BadFile, match="2: "):
        load(path)


def test_limits_hold_after_unpacking(tmp_path, write, monkeypatch):
    """A few packed kilobytes would unpack into all memory."""
    monkeypatch.setattr(conversation, "LINE_BYTES", 200)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"x" * 1_000_000))
    with pytest.raises(BadFile, match="more than 200 bytes"):
        load(path)
    monkeypatch.setattr(conversation, "LINES", 2)
    with pytest.raises(BadFile, match="3: a conversation may have 2 lines"):
        load(write(row("1"), row("2"), row("3")))
    monkeypatch.setattr(conversation, "FILE_BYTES", 100)
    with pytest.raises(BadFile, match="100 bytes"):
        load(write(row("1"), row("2")))


@pytest.mark.parametrize("damage", [lambda data: data[:-20], lambda data: data[:30] + b"\0\0\0\0" + data[34:], lambda data: data[:2]])
def test_damaged_gzip_is_refused(tmp_path, damage):
    """Half a download would be replayed as if it were the whole conversation."""
    path = tmp_path / "talk.gz"
    path.write_bytes(damage(gzip.compress("".join(row(str(number), text=f"{number * 7919}") for number in range(200)).encode())))
    with pytest.raises((BadFile, InvalidOption)):
        load(path)


def test_a_file_that_is_missing_or_says_nothing_is_refused(tmp_path, write):
    """A typing error in a path would end in a traceback, an empty file in a division by zero."""
    with pytest.raises(InvalidOption, match="cannot be read"):
        load(tmp_path / "nothing.jsonl")
    with pytest.raises(InvalidOption, match="cannot be read"):
        load(tmp_path)
    with pytest.raises(InvalidOption, match="no line in it has an author"):
        load(write(row("1", None)))


def test_the_shipped_conversation_is_a_real_one():
    """The demo would compare orders on a conversation in which nobody answers anybody."""
    talk = shipped()
    assert len(talk.lines) == 120
    assert len(talk.authors) == 8
    assert (talk.skipped, talk.dropped_parents) == (0, 0)
    assert sum(1 for line in talk.lines if not line.parents) >= 8, "several threads begin"
    assert sum(1 for line in talk.lines if len(line.parents) > 1) >= 10, "some lines answer two"
    place = {line.id: number for number, line in enumerate(talk.lines)}
    assert sum(1 for line in talk.lines for parent in line.parents if place[line.id] - place[parent] > 1) > 60, "threads interleave"


def test_the_annotated_chat_is_read_whole(annotated_chat):
    """Results on real conversations would silently rest on a part of the data."""
    talk = load(annotated_chat)
    assert len(talk.lines) + talk.skipped == 70_607
    assert talk.skipped == 8_290
    assert talk.dropped_parents < 100
