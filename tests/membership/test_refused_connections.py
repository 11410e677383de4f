"""Members whose address refuses connections: they are asked at once, and put out early only if nobody hears them."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.errors import WouldBlock
from antiphon.model.ids import name_of
from antiphon.model.options import GroupOptions, Settings

SETTINGS = Settings()


def gathered(company: Any, nodes: str = "abcd", seed: int = 7, settings: Settings = SETTINGS, **options: Any) -> Any:
    world = company(nodes, seed, settings=settings, connections=True)
    assert world.gather(options=GroupOptions(**options))
    world.run(1.0)
    return world


@pytest.mark.parametrize("dead", ["d", "a", "ab", "cd", "abc"])
@pytest.mark.parametrize("seed", range(5))
def test_a_crash_is_seen_before_silence_would_show_it(company: Any, dead: str, seed: int) -> None:
    """A killed process would stay in the view for as long as its silence takes to be noticed, although its connections are closed."""
    world = gathered(company, seed=seed)
    alive = [name for name in "abcd" if name not in dead]
    for name in dead:
        world.crash(name)
    assert world.wait_for(lambda: all(world.seen(name) == "".join(alive) for name in alive), SETTINGS.suspect_s)
    assert world.settle(30.0)
    assert world.check() == []


@pytest.mark.parametrize("dead", ["dc", "da", "ab", "ad"])
@pytest.mark.parametrize("pause_s", [0.3, 0.7, 0.8, 0.83, 0.85, 0.87, 0.9])
def test_a_crash_during_a_change_does_not_hold_the_change_up(company: Any, dead: str, pause_s: float) -> None:
    """A second process that dies while the view without the first is made would be waited for, for the whole of `change_s`."""
    world = gathered(company, "abcde", 3, order="total")
    world.crash(dead[0])
    world.run(pause_s)
    world.crash(dead[1])
    alive = [name for name in "abcde" if name not in dead]
    assert world.wait_for(lambda: all(world.seen(name) == "".join(alive) for name in alive), SETTINGS.suspect_s)
    assert world.settle(30.0)
    assert world.check() == []


@pytest.mark.parametrize("order", ["fifo", "total"])
def test_senders_go_on_after_a_slow_reader_crashed(company: Any, order: str) -> None:
    """Senders that wait for a reader would wait for its silence to be noticed after its process is gone."""
    world = gathered(company, order=order, window=64)
    world.pause_reader("d")

    def refused() -> bool:
        try:
            world.send("a", b"x")
        except WouldBlock:
            return True
        return False

    assert world.wait_for(refused, 30.0)
    writable: list[str] = []
    world.on_writable("a", lambda *_: writable.append("a"))
    world.run(1.0)
    assert writable == []
    world.crash("d")
    assert world.wait_for(lambda: bool(writable), SETTINGS.suspect_s)


@pytest.mark.parametrize("leader", ["a", "c"])
def test_a_member_that_answers_is_not_put_out(company: Any, leader: str) -> None:
    """A node that restarted its listener, or is at its limit of connections, would be put out of its groups."""
    world = gathered(company)
    view = world.view_of("a")
    for _ in range(200):
        for name in "abd":
            world.refuse_connection(name, by="c")
        world.refuse_connection("c", by=leader if leader != "c" else "a")
        world.run(0.05)
    assert {world.view_of(name) for name in "abcd"} == {view}


def test_a_member_that_only_others_hear_is_reached_through_them(company: Any) -> None:
    """One broken link between two members would put one of them out, although all others hear it."""
    world = gathered(company)
    view = world.view_of("a")
    world.cut("a", "c")
    world.cut("c", "a")
    world.refuse_connection("a", by="c")
    assert world.wait_for(lambda: "c" in world.node("a").routes.through, SETTINGS.suspect_s)
    world.run(10.0)
    assert {world.view_of(name) for name in "abcd"} == {view}


def test_a_connection_that_flaps_costs_few_questions(company: Any) -> None:
    """A connection that comes and goes would flood the group with questions."""
    world = gathered(company)
    before = sum(count for (source, _, kind), count in world.frames.items() if source == "a" and kind == "ping")
    for _ in range(1_000):
        world.refuse_connection("a", by="c")
        world.run(0.01)
    after = sum(count for (source, _, kind), count in world.frames.items() if source == "a" and kind == "ping")
    assert 1 <= after - before <= 3 * (1 + 10 / SETTINGS.suspect_s)


def test_a_node_that_is_back_at_once_is_not_reported(company: Any) -> None:
    """The new process at an address would be suspected for the death of the old one."""
    world = gathered(company)
    world.crash("c")
    world.restart("c")
    assert world.wait_for(lambda: bool(world.known("c")), 10.0)
    world.join("c")
    assert world.wait_for(lambda: all(world.seen(name) == "abcd" and world.member(name).stable for name in "abcd"), 30.0)
    for name in "abd":
        world.refuse_connection(name, by="c")  # late news of the old process
    view = world.view_of("a")
    world.run(10.0)
    assert {world.view_of(name) for name in "abcd"} == {view}
    assert name_of(view.members[-1]) == "c"
