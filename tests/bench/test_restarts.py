"""The judge of `benchmarks/restarts.py`: it must accept one line of primary views and report every other."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "restarts.py"


@pytest.fixture(scope="module")
def restarts() -> Any:
    spec = importlib.util.spec_from_file_location("restarts", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lines(restarts: Any, *told: tuple[int, str, dict[str, int | None]], origin: int = 1) -> dict[str, list[Any]]:
    """Return the reports of each replica. `told` has view id, members, and for each member that installed it the view it came from."""
    views_by_replica: dict[str, list[Any]] = {}
    for id, members, installed in told:
        for name, previous in installed.items():
            view = restarts.InstalledView(id, tuple(members), previous, origin)
            views_by_replica.setdefault(name, []).append(view)
    return views_by_replica


FOUNDED = (1, "abcd", {"a": None, "b": None, "c": None, "d": None})
WITHOUT_D = (2, "abc", {"a": 1, "b": 1, "c": 1})


def test_restarts_one_after_the_other_are_one_line(restarts: Any) -> None:
    """A judge that objects to a healthy group would hide the failures that count. Capital letters are restarted members."""
    reports = lines(
        restarts,
        FOUNDED,
        WITHOUT_D,
        (3, "abcD", {"a": 2, "c": 2, "D": None}),  # b missed this view
        (4, "abD", {"a": 3}),  # installed by one member only, no primary view
        (5, "abDC", {"a": 4, "b": 2, "D": 3, "C": None}),
        (6, "bDCA", {"b": 5, "D": 5, "C": 5, "A": None}),
    )
    assert restarts.second_primaries(reports.values()) == []


def test_of_two_members_the_first_goes_on(restarts: Any) -> None:
    """One of two is no majority, but the first of two may go on alone."""
    pair = (1, "ab", {"a": None, "b": None})
    assert restarts.second_primaries(lines(restarts, pair, (2, "a", {"a": 1})).values()) == []
    (found,) = restarts.second_primaries(lines(restarts, pair, (2, "b", {"b": 1})).values())
    assert found == "view 2 ['b'] has no majority of view 1 ['a', 'b']"


def test_a_minority_that_goes_on_is_a_second_primary(restarts: Any) -> None:
    """Two halves of a group that both go on would deliver different messages."""
    reports = lines(restarts, FOUNDED, (2, "cd", {"c": 1, "d": 1}))
    (found,) = restarts.second_primaries(reports.values())
    assert found == "view 2 ['c', 'd'] has no majority of view 1 ['a', 'b', 'c', 'd']"


def test_two_views_that_follow_from_one_are_seen_although_they_share_a_majority(restarts: Any) -> None:
    """Views 2 and 3 both follow from view 1, and both were installed by two of three: sorted by id they look like one line."""
    reports = lines(restarts, FOUNDED, (2, "abc", {"a": 1, "b": 1}), (3, "bcd", {"c": 1, "d": 1}))
    (found,) = restarts.second_primaries(reports.values())
    assert found == "view 3 ['b', 'c', 'd'] does not follow from view 2 ['a', 'b', 'c']"


@pytest.mark.parametrize("first", [1, 3, 5], ids=["ids-mixed", "one-id-between", "later-ids"])
def test_a_second_founding_is_a_second_primary(restarts: Any, first: int) -> None:
    """A group that is founded again while members live has two lines, whatever the view ids. The line of the first founding goes on."""
    old = lines(restarts, (2, "abcd", dict.fromkeys("abcd")), (4, "abc", {"a": 2, "b": 2, "c": 2}))
    new = lines(restarts, (first, "ABcD", dict.fromkeys(("A", "B", "c+", "D"))), origin=2)
    (found,) = restarts.second_primaries([*old.values(), *new.values()])
    assert f"view {first} " in found
    assert "second founding: its origin is 2, that of view 4 ['a', 'b', 'c'] is 1" in found


def test_views_that_no_majority_installed_are_no_primaries(restarts: Any) -> None:
    """A frozen minority keeps its old view; a view that one member alone installed decides nothing."""
    reports = lines(restarts, FOUNDED, (2, "cd", {"c": 1}), (3, "abc", {"a": 1, "b": 1, "c": 2}))
    assert restarts.second_primaries(reports.values()) == []
