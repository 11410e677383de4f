"""The demo: its story comes out as told, its page stands alone."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec import structs

from antiphon.cli import demo, live, proof, spacetime, terminal
from antiphon.cli.main import OK, main
from antiphon.cli.story import FRIENDS, READER, tell
from antiphon.spark.java import find_java


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few runs, among them some in which messages answer others."""
    monkeypatch.setattr(demo, "SWARM_SEEDS", 8)


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "find_spec", lambda name: None)


def test_the_story_is_true() -> None:
    """The demo would explain the orders with an example that does not show them."""
    read = {order: [line.text for line in tell(order).read_by(READER)] for order in ("unordered", "fifo", "causal", "total", "semantic")}
    delhi, chennai = "Did you visit Delhi?", "Did you visit Chennai?"
    assert read["unordered"] == read["fifo"] == ["No", "Yes", delhi, chennai]
    assert read["causal"] == read["total"] == [delhi, chennai, "No", "Yes"]
    assert read["semantic"] == [delhi, "Yes", chennai, "No"]


def test_the_same_messages_arrive_at_the_same_moments_in_every_order() -> None:
    """The differences shown would come from the network, not from the order."""
    arrivals = [
        sorted((line.author, line.reader, line.text, line.sent_at, line.arrived_at) for line in tell(order).lines)
        for order in demo.STORY_ORDERS
    ]
    assert arrivals[0] == arrivals[1] == arrivals[2]
    assert len(arrivals[0]) == 4 * len(FRIENDS)


def test_the_picture_shows_a_bar_for_every_wait() -> None:
    """The picture would hide the price that an order has."""
    assert spacetime.draw(tell("unordered")).count("<rect") == 0
    picture = spacetime.draw(tell("semantic"))
    assert picture.count("<rect") == picture.count('fill="var(--card)" stroke=') == 2


class _Page(HTMLParser):
    """Checks that elements are closed in order, and collects what would be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "br", "img"):
            self.open.append(tag)
        addresses = [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        self.fetched += [address for address in addresses if not address.startswith("#")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.skipif(find_java() is None, reason="the demo ends with Spark, which needs Java")
@pytest.mark.usefixtures("quick")
def test_the_demo_tells_everything_and_writes_a_page_that_stands_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A newcomer's first minute would fail, or the page would be empty without a network."""
    assert main(["demo", "--out", str(tmp_path / "deep" / "er")]) == OK
    told = " ".join(capsys.readouterr().out.split())
    for words in ("to what?", "semantic", "every promise kept", "messages in the same order", "report.html", "they kept all"):
        assert words in told
    text, proven = ((tmp_path / "deep" / "er" / name).read_text(encoding="utf-8") for name in ("report.html", proof.PAGE))
    for written, links in ((text, [proof.PAGE]), (proven, [])):
        page = _Page()
        page.feed(written)
        assert page.open == []
        assert page.fetched == links
        assert not re.search(r"url\((?!#)|@import|<script", written)
    assert text.count("<svg") == len(demo.STORY_ORDERS) + 1
    assert "Every promise was kept" in proven


@pytest.mark.usefixtures("quick", "without_spark")
def test_the_demo_speaks_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A program that runs the demo would have to read tables made for people."""
    assert main(["demo", "--out", str(tmp_path), "--json"]) == OK
    told = json.loads(capsys.readouterr().out)
    assert told["swarm"]["ok"] is True
    assert len(set(told["live"]["digests"].values())) == 1
    assert [result["order"] for result in told["comparison"]["results"]] == ["unordered", "fifo", "causal", "total", "semantic"]
    assert Path(told["report"]).is_file()
    assert told["proof"]["kept"] is None
    assert "antiphon[spark,trace]" in told["proof"]["sentence"]


@pytest.mark.usefixtures("quick", "without_spark")
def test_the_demo_goes_on_without_pictures(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody with only the command line installed would not get to see it."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["demo", "--out", str(tmp_path)]) == OK
    assert "antiphon[apps]" in capsys.readouterr().err
    assert (tmp_path / "report.html").is_file()


def test_survivors_who_were_told_different_things_are_no_good_news() -> None:
    """The demo would call a broken order a success."""
    delivered, digests = {"ben": 9, "cem": 9}, {"ben": "aa", "cem": "aa"}
    same = live.Outcome(names=("ana", "ben", "cem"), killed="ana", formed_s=1, noticed_s=2, delivered=delivered, digests=digests)
    assert same.agreed
    assert "in the same order" in same.verdict()
    for other in (structs.replace(same, digests={"ben": "aa", "cem": "ab"}), structs.replace(same, delivered={"ben": 9, "cem": 8})):
        assert not other.agreed
        assert "different things" in other.verdict()


@pytest.mark.parametrize(
    ("called", "found", "expected"),
    [
        (".venv/bin/antiphon", None, ".venv/bin/antiphon"),
        ("/usr/bin/antiphon", "/usr/bin/antiphon", "antiphon"),
        ("pytest", None, "antiphon"),
    ],
)
def test_what_to_type_next_can_be_typed(called: str, found: str | None, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo would end with commands that the shell does not find."""
    monkeypatch.setattr(sys, "argv", [called])
    monkeypatch.setattr(terminal.shutil, "which", lambda name: found)
    assert terminal.program() == expected
