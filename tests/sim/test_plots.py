"""Pictures: the same bytes for the same numbers, nothing fetched from elsewhere, clear refusals."""

from __future__ import annotations

import builtins
import re
from xml.etree import ElementTree

import msgspec
import pytest

from antiphon.errors import InvalidOption, UsageError
from antiphon.sim.compare import Comparison, OrderResult, settings_for
from antiphon.sim.holdback import HoldBack
from antiphon.sim.plots import plot, svg


def made_up(rate: float, orders: tuple[str, ...] = ("unordered", "causal", "total", "semantic")) -> Comparison:
    """Numbers of the size that occurs, zeros too."""
    results = tuple(
        OrderResult(
            order=order,
            hold_back=HoldBack(1_000, 20 * place, 0.02 * place, 0.003 * place * rate, 0.0, 0.05 * place, 0.1 * place, 0.2),
            violations={"parent_before_child": 0 if place else 40},
            promised=(),
            postponed=0,
            postponed_mean_s=0.0,
            unlinked=0,
            spoken_rate=rate,
            frames={},
            settled=True,
        )
        for place, order in enumerate(orders)
    )
    settings = settings_for((0.02, 0.2))
    return Comparison("choir.jsonl", 120, 110, 8, rate, 0.02, (0.02, 0.2), "reliable", "postpone", 1, settings, results)


PICTURES = [made_up(10.0), [made_up(rate) for rate in (2.0, 10.0, 50.0)]]


@pytest.mark.parametrize("shown", PICTURES, ids=["rows", "lines"])
def test_the_same_numbers_give_the_same_bytes(shown):
    """A picture in a repository would change with every run, and no change could be reviewed."""
    assert svg(shown) == svg(shown)
    assert svg(shown) != svg(made_up(11.0))


@pytest.mark.parametrize("shown", PICTURES, ids=["rows", "lines"])
def test_a_picture_stands_alone(shown):
    """A report that is opened without a network would miss fonts or styles, or tell somebody that it was opened."""
    text = svg(shown)
    assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    assert set(re.findall(r"https?://[^\"'\s<]+", text)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}, "names only"
    assert not re.search(r"href=\"(?!#)", text), "every reference is to the picture itself"
    assert not re.search(r"font-family|<image|<script|\b20\d\d-\d\d-\d\d\b", text)


@pytest.mark.parametrize("shown", PICTURES, ids=["rows", "lines"])
def test_the_suffix_chooses_the_format(shown, tmp_path):
    """A page would show a broken image."""
    plot(shown, tmp_path / "picture.svg")
    plot(shown, tmp_path / "picture.PNG")
    assert (tmp_path / "picture.svg").read_text(encoding="utf-8") == svg(shown)
    assert (tmp_path / "picture.PNG").read_bytes().startswith(b"\x89PNG")


def test_an_order_of_ones_own_is_drawn_too():
    """Whoever writes an ordering could not compare it with the others."""
    assert "<svg" in svg(made_up(10.0, ("causal", "mine")))


@pytest.mark.parametrize("shown", [[], [made_up(2.0), made_up(5.0, ("causal",))], [made_up(2.0), made_up(2.0)]])
def test_what_does_not_go_into_one_picture_is_refused(shown):
    """Lines would connect numbers that have nothing to do with each other."""
    with pytest.raises(InvalidOption, match="comparisons"):
        svg(shown)


def test_a_file_that_cannot_be_drawn_into_is_refused(tmp_path):
    """A typing error would end in a traceback after minutes of simulation."""
    with pytest.raises(InvalidOption, match=r"\.svg or \.png"):
        plot(made_up(10.0), tmp_path / "picture.jpeg")
    with pytest.raises(InvalidOption, match="folder that exists"):
        plot(made_up(10.0), tmp_path / "nowhere" / "picture.svg")


def test_without_matplotlib_the_command_that_installs_it_is_named(monkeypatch):
    """Somebody who installed the core alone would see a traceback instead of one sentence."""
    really = builtins.__import__

    def missing(name: str, *rest: object) -> object:
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return really(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(UsageError, match=r"pip install 'antiphon\[apps\]'"):
        svg(made_up(10.0))


def test_a_comparison_survives_being_written_and_read():
    """A picture could not be drawn from results that were saved."""
    comparison = made_up(10.0)
    assert svg(msgspec.convert(comparison.as_dict(), Comparison)) == svg(comparison)
