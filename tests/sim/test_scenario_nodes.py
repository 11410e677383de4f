from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.debugger.words import split
from antiphon.errors import BadFile
from antiphon.model.options import GroupOptions
from antiphon.sim.scenario import run_text
from antiphon.sim.scenario.founding import described, parse_options
from antiphon.sim.scenario.opening import parse_nodes

NODES = "nodes A B C seed 7\n"
GROUP = NODES + "gather g causal\n"


def told(story: str) -> list[str]:
    """What a story that must go well prints."""
    result = run_text(story, rewrite=True)
    assert result.ok, result.differences
    return [line.removeprefix("> ") for line in result.text.splitlines() if line.startswith("> ")]


def test_a_split_and_its_healing_are_told_from_beginning_to_end() -> None:
    """What the project is for could not be shown in a file that people read."""
    story = GROUP + "A sends q\nsettle\npartition A | B C\nA sends left\nC sends right\nsettle\nshow members\nshow views\n"
    story += "expect A sees A\nexpect B sees B C\nexpect A remembers q left\nheal\nsettle\nshow members\nexpect converged\n"
    story += "expect same history\nexpect A delivered q left right\nshow story at A\ncheck\nreplay\n"
    lines = told(story)
    assert lines[:4] == ["g: A | B C", "A is in view 3 [A]", "B is in view 3 [B C]", "C is in view 3 [B C]"]
    assert lines[-2:] == ["every promise is kept", "the same again"]
    heard = lines[5:-2]
    assert heard[:3] == ["A is in view 1 [A]", "A is in view 2 [A B C]", "A delivers: q left"]
    assert heard[-3:] == ["A merges into view 4 [B C | A]", "A recovers: right", "A has caught up"]


def test_groups_are_founded_found_refused_and_left() -> None:
    """Discovery, which nobody sees when it works, could not be shown."""
    story = 'nodes A B seed 3 late C D\nA creates g fifo about "a trip"\nwait 500ms\nB joins g\nsettle\nC starts\nwait 500ms\n'
    story += "show groups at B\nexpect C knows g\nC rejects g\nC creates h total delivery safe majority\nwait 500ms\nexpect C knows h\n"
    story += "A leaves g\nsettle\nB leaves g\nwait 1s\nD starts\nwait 500ms\nexpect D knows h\nD joins h\nsettle\n"
    story += "show members in h\nshow members in g\nC sends q in h\nsettle\nexpect D delivered q in h\nshow groups at D\n"
    assert told(story) == [
        'B knows g "a trip" (fifo over reliable): A B',
        "h: C D",
        "g: nobody",
        "D knows h (total over reliable, safe, majority): C D",
    ]


def test_a_name_server_is_asked_and_may_refuse() -> None:
    """Networks without multicast could not be told of."""
    story = "nodes A B C seeds A shy B seed 5\nA creates g fifo\nwait 500ms\nC asks A for groups\nwait 1s\n"
    lines = told(story + "C asks B for groups\nwait 1s\nshow story at C\n")
    assert "C is told of g" in lines
    assert lines[-1].startswith("C is told of no group: ")


def test_private_words_and_words_from_outside_are_in_the_story() -> None:
    """What is not for the whole group would be invisible."""
    story = 'nodes A B C seed 2\nA creates g fifo open\nwait 500ms\nB joins g\nsettle\nA says "hush" to B\nA asks all "how many?" as k\n'
    story += 'wait 100ms\nB replies to k "two"\nC tells g "hello"\nwait 1s\nshow story at A B\n'
    lines = told(story)
    for line in ('B hears "hush" from A', 'B is asked "how many?" by A', 'A is answered "two" by B'):
        assert line in lines
    assert "A delivers: A:1" in lines or "A delivers: B:1" in lines


def test_how_much_of_the_past_a_newcomer_gets_is_in_the_file() -> None:
    """History options could not be shown."""
    story = GROUP.replace("seed 7", "seed 7 late D E F") + "A sends m 5 times\nsettle\n"
    for name, history in (("D", "last 2"), ("E", "none"), ("F", "all")):
        story += f"{name} starts\nwait 500ms\n{name} joins g history {history}\nsettle\n"
    story += "B sends x\nsettle\nexpect D delivered m4 m5 x\nexpect E delivered x\nexpect F delivered m1 m2 m3 m4 m5 x\n"
    assert told(story) == []


def test_a_state_is_the_list_of_what_was_told() -> None:
    """State transfer could not be shown."""
    story = GROUP.replace("seed 7", "seed 7 late D") + "A sends m 2 times\nsettle\nD starts\nwait 500ms\nD joins g history state\nsettle\n"
    assert 'D is given the state "m1 m2"' in told(story + "B sends x\nsettle\nexpect D delivered x\nshow story at D\n")


def test_a_minority_is_told_that_it_must_wait() -> None:
    """A refused send would look like an accepted one."""
    story = NODES + "gather g total majority\npartition A | B C\nsettle\nA sends x\nshow views at A\n"
    lines = told(story)
    assert lines[0].startswith("x is refused: 1 of 3 members are on this side")
    assert lines[1] == "A is in view 2 [A B C], no majority"


def test_what_holds_for_members_of_a_group_holds_for_nodes() -> None:
    """Half of the language would fail in half of the scenarios."""
    story = GROUP + "hold data from A to C\nA sends q\nwait 1ms\nshow held\nshow why q at B\nshow stats at A\nshow frames data\n"
    story += "show held frames\nshow rules\nshow time\nrelease q to C\nclear rules\nslow B 1ms\nskew C +50ms\nfreeze B\nresume B\n"
    story += "crash C\nsettle\nshow deliveries\nshow history\nrestart C\nstop reading B\nstart reading B\n"
    lines = told(story + "expect 1 data from A to B\nexpect A holds 0\n")
    for line in ("A -> B: 1 data", "data from A to C, by `hold data from A to C out`", "A remembers q", "view: 2"):
        assert line in lines
    assert "C delivered nothing, and crashed" in lines


def test_expectations_that_fail_say_what_there_is_instead() -> None:
    """The author would have to guess what happened."""
    story = GROUP + "A sends q\nsettle\nexpect A sees A B\nexpect A knows nothing\nexpect A remembers nothing\n"
    assert run_text(story + "split A | B C\nexpect converged\n", "story", rewrite=True).differences == [
        "story:5: expect A sees A B: A sees A B C",
        "story:6: expect A knows nothing: A knows g",
        "story:7: expect A remembers nothing: A remembers q",
        "story:9: expect converged: A is in view 2 [A B C]; B is in view 2 [A B C]; C is in view 2 [A B C]",
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("view A B", "make their views themselves"),
        ("A creates", "a name for the group"),
        ("A creates data fifo", "cannot be a group"),
        ("A creates h", "say the order"),
        ("A creates h fifo quickly now", "say the order"),
        ("A creates h fifo besteffort", "lost message"),
        ("A creates h fifo window", "a number"),
        ("A creates h chaos", "choose one of"),
        ("Z creates h fifo", "no member Z"),
        ("A joins h", "no group h"),
        ("A joins g", "already"),
        ("D joins g history some", "no history"),
        ("D joins g", "has not started"),
        ("A joins g via", "a node"),
        ("A joins h or creates", "say the order"),
        ("A leaves h", "no group h"),
        ("A leaves g now", "too much"),
        ("A rejects g", "leave it instead"),
        ("A advertises loudly", "too much"),
        ("A asks B for money", "groups"),
        ("A asks B", "in quotes"),
        ('A asks B "x"', "a label"),
        ("A says hush to B", "in quotes"),
        ('A says "hush" to D', "never in g"),
        ('B replies to k "x"', "no question"),
        ('A tells h "x"', "no group h"),
        ('A tells g "x"', "use submit"),
        ("A starts", "already"),
        ("stop dancing A", "reading"),
        ("show views at Z", "no member Z"),
        ("show history in h", "at"),
        ("expect A knows h", "no group h"),
        ("expect A sees Z", "no member Z"),
        ("expect same", "history"),
        ("A sends q in h", "too much"),
        ("gather g", "say the order"),
        ("nodes", "name one to"),
        ("nodes A A", "each once"),
        ("nodes A late A", "each once"),
        ("nodes A seeds Z", "no node Z"),
        ("nodes A seed 1 late B late C", "once"),
        ("nodes 1A", "letter"),
    ],
)
def test_a_line_that_is_wrong_is_named_with_its_file_and_number(line: str, says: str) -> None:
    """The author of a scenario would look for the mistake in the wrong place."""
    with pytest.raises(BadFile, match=says) as caught:
        run_text(f"nodes A B C late D\ngather g fifo\n{line}\n", "story")
    assert (caught.value.file, caught.value.line) == ("story", 3)


@pytest.mark.parametrize(
    "line", ["gather g fifo", "A creates g fifo", "show views", "expect converged", "stop reading A", 'A says "x" to B']
)
def test_what_only_nodes_do_is_refused_of_given_groups(line: str) -> None:
    """A scenario would silently do something else."""
    with pytest.raises(BadFile, match="start with `nodes"):
        run_text(f"group fifo members A B C\n{line}\n")


def test_before_there_is_a_group_nothing_can_be_said() -> None:
    """The error would be a traceback."""
    with pytest.raises(BadFile, match="no group yet"):
        run_text(NODES + "A sends q\n")
    assert told(NODES + "A creates g fifo\nB joins g\n") == [
        "B does not join: cannot join g: no group of this name is known: advertise, or ask a node that knows it, then join"
    ]


WORDS = """A B C g q1 sends answers as after creates joins leaves rejects advertises asks for groups starts says to "text" replies tells
history last 2 all none state via or fifo total majority open evict in partition | cut wait 5ms show views members story expect
converged same sees knows remembers nothing stop start reading freeze resume crash restart heal settle check replay gather"""


@settings(max_examples=60)
@given(st.lists(st.lists(st.sampled_from(WORDS.split()), max_size=6), max_size=3))
def test_no_line_does_worse_than_being_refused(lines: list[list[str]]) -> None:
    """A mistyped command would end in a traceback instead of a line number."""
    with contextlib.suppress(BadFile):
        run_text("nodes A B\ngather g fifo\nA sends q1\nwait 5ms\n" + "\n".join(map(" ".join, lines)) + "\n", rewrite=True)


def test_the_opening_lines_say_what_they_mean() -> None:
    """The scenario would run in another world than it describes."""
    opening = parse_nodes(split("A B late C seed 9 seeds A B shy B"))
    assert (opening.nodes, opening.late, opening.seeds, opening.shy, opening.seed) == (("A", "B"), ("C",), ("A", "B"), ("B",), 9)
    assert parse_nodes(split("A")).seeds is None
    options = parse_options(split("total tree delivery safe window 64 fanout 3 majority open evict after 5s"))
    assert options == GroupOptions(
        order="total", multicast="tree", delivery="safe", window=64, fanout=3, partitions="majority", open=True, slow="evict", slow_s=5.0
    )
    assert described(options) == "total over tree, safe, majority, open, evict"
    assert described(parse_options(split("fifo"))) == "fifo over reliable"
