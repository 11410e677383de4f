from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.debugger.words import split
from antiphon.errors import BadFile, InvalidOption
from antiphon.model.options import Settings
from antiphon.sim.network import Constant, Exponential, LinkModel, LogNormal, NetworkModel, Uniform
from antiphon.sim.scenario import run_file, run_text
from antiphon.sim.scenario.opening import latency, parse_group, parse_network, parse_settings

GROUP = "group fifo reliable members A B C seed 7\n"
STORY = GROUP + 'A sends q "hello"   # a greeting\n\nsettle\nshow deliveries\nexpect B delivered q\ncheck\nreplay\n'


def test_a_rewritten_scenario_passes_and_rewrites_to_itself(tmp_path: Path) -> None:
    """Recorded scenarios would fail on the next run, or change with every rewrite."""
    file = tmp_path / "story.txt"
    file.write_text(STORY)
    assert not run_file(file).ok
    assert file.read_text() == STORY
    assert run_file(file, rewrite=True).ok
    recorded = file.read_text()
    assert "> B delivered q\n" in recorded
    assert "# a greeting\n\nsettle\n" in recorded
    assert run_file(file).ok
    assert run_file(file, rewrite=True).text == recorded
    assert [path.name for path in tmp_path.iterdir()] == ["story.txt"]


def test_a_difference_is_a_failure_shown_as_a_diff() -> None:
    """A changed behaviour would go unnoticed."""
    recorded = run_text(STORY, rewrite=True).text.replace("> B delivered q", "> B delivered nothing")
    result = run_text(recorded, "story")
    assert not result.ok
    assert "-> B delivered nothing" in result.differences
    assert "+> B delivered q" in result.differences


def test_an_expectation_that_fails_is_seen_and_no_rewrite_hides_it() -> None:
    """Rewriting the records would silence the very thing the scenario is for."""
    wrong = GROUP + "A sends q\nA sends r\nsettle\nexpect B delivered r q\nexpect B holds 3\nexpect 99 data\nexpect C delivered nothing\n"
    for rewrite in (False, True):
        result = run_text(wrong, "story", rewrite)
        assert not result.ok
        assert result.differences == [
            "story:5: expect B delivered r q: B delivered q r",
            "story:6: expect B holds 3: B holds 0",
            "story:7: expect 99 data: there are 2 data",
            "story:8: expect C delivered nothing: C delivered q r",
        ]


def test_a_broken_promise_fails_the_scenario() -> None:
    """`check` would be a decoration."""
    result = run_text(GROUP + "cut A B\ncut A C\nA sends q\nwait 1s\ncheck\n", rewrite=True)
    assert not result.ok
    assert {violation.promise for violation in result.violations} == {"agreement"}
    assert "> agreement at" in result.text


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("dance", "no command"),
        ("A sends", "a label"),
        ("A sends q q", "too much"),
        ("A sends data", "cannot be a label"),
        ('A sends "q"x', "column"),
        ("Z sends q", "no member Z"),
        ("A sends m 0 times", "whole number"),
        ("A sends m 999999999 times", "whole number"),
        ("A sends big of 99999999999 bytes", "whole number"),
        ("A sends x after", "after which"),
        ("A answers q as a", "no message is called 'q'"),
        ("A sends x after y", "no message is called 'y'"),
        ("wait", "a duration"),
        ("wait soon", "no duration"),
        ("wait 2min extra", "too much"),
        ("wait 999min", "at most"),
        ("settle 999min", "at most"),
        ("at -5ms", "no duration"),
        ("cut A", "second member"),
        ("cut A Z", "no member Z"),
        ("split A B C", "where the split is"),
        ("split A | A B", "one part"),
        ("restart A", "alive"),
        ("slow A", "frame takes"),
        ("skew A +1s rate x", "no rate"),
        ("skew A +1s rate 0", "above 0"),
        ("view", "at least one member"),
        ("view A A", "only once"),
        ("drop", "which frames"),
        ("drop data from Z", "no member Z"),
        ("release", "say what"),
        ("release nobody", "say what"),
        ("clear", "rules"),
        ("show", "what to show"),
        ("show everything", "cannot be shown"),
        ("show why q at A", "no message"),
        ("show stats", "at"),
        ("expect", "a member"),
        ("expect A", "delivered"),
        ("expect A delivered", "say what"),
        ("expect A dances", "not understood"),
        ("expect 3", "which frames"),
        ("check twice", "too much"),
        ("replay twice", "stands alone"),
        ("group chaos members A", "choose one of unordered"),
        ("group fifo besteffort members A B", "lost message"),
        ("group fifo members", "name one to"),
        ("group fifo members A A", "each once"),
        ("group members A", "say the order"),
        ("group fifo members A seed", "needs a value"),
        ("group fifo members A seed x", "whole number"),
        ("group fifo members A delivery maybe", "agreed"),
        ("group fifo members 1A", "letter"),
        ("network", "what changes"),
        ("network loss 150%", "share"),
        ("network latency 5ms..1ms", "lower one first"),
        ("network from A to Z loss 1%", "Z, who is not in the group"),
        ("network speed 5", "not understood"),
        ("settings", "which"),
        ("settings colour 5", "no setting"),
        ("settings nack_s 0ms", "above zero"),
        ("> recorded by nobody", "directly below"),
    ],
)
def test_a_line_that_is_wrong_is_named_with_its_file_and_number(line: str, says: str) -> None:
    """The author of a scenario would look for the mistake in the wrong place."""
    with pytest.raises(BadFile, match=says) as caught:
        run_text(f"{GROUP}\n{line}\n", "story")
    assert (caught.value.file, caught.value.line) == ("story", 3)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("A sends q", "no group yet"),
        ("\n" * 10_001, "lines"),
        ("x" * 4_001, "characters"),
        ("#" * 1_048_577, "larger"),
        (GROUP + "crash A\nA sends q", "restart"),
        (GROUP + "pause A\nA sends q", "resume"),
        (GROUP + "wait 1s\nat 20ms", "already"),
        (GROUP + "A sends q\nB sends q", "already"),
        ("network from X to Y loss 1%\n" + GROUP, "X, who is not in the group"),
    ],
)
def test_what_does_not_fit_the_story_or_the_limits_is_refused(text: str, says: str) -> None:
    """A file of unknown origin could keep the simulator busy for ever."""
    with pytest.raises(BadFile, match=says):
        run_text(text)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    """A wrong path would end in a traceback."""
    with pytest.raises(BadFile, match="cannot be read"):
        run_file(tmp_path / "missing.txt")
    with pytest.raises(BadFile, match="cannot be read"):
        run_file(tmp_path)
    broken = tmp_path / "broken.txt"
    broken.write_bytes(b"# fine\n\xff\n")
    with pytest.raises(BadFile, match="UTF-8") as caught:
        run_file(broken)
    assert caught.value.line == 2


WORDS = """A B q1 sends answers as after times group network settings fifo members cut -> | split at wait 5ms show held frames
why deliveries expect delivered holds 3 drop data hold release all one from to in out first with 10% "text" # > replay
check view crash restart pause resume slow skew rate heal settle clear rules"""


@given(st.lists(st.sampled_from(WORDS.split()), max_size=7))
def test_no_line_does_worse_than_being_refused(line: list[str]) -> None:
    """A mistyped command would end in a traceback instead of a line number."""
    with contextlib.suppress(BadFile):
        run_text(GROUP + "A sends q1\nwait 5ms\n" + " ".join(line) + "\n", rewrite=True)


def test_refusals_are_part_of_the_story() -> None:
    """A scenario could not show back-pressure, or an answer to an unread question."""
    story = "group semantic members A B window 2\nA sends m 3 times\nB answers m1 as a\n"
    story += "settings message_bytes 10\ngroup fifo members A B\nA sends long of 11 bytes\n"
    lines = run_text(story, rewrite=True).text.splitlines()
    assert lines[2].startswith("> m3 is refused: the open batch fills the window of 2")
    assert lines[4].startswith("> a is refused: cannot answer A:1")
    assert lines[8].startswith("> long is refused: the payload has 11 bytes")


def test_commands_without_effect_say_so() -> None:
    """Somebody would wait for a frame that was never held."""
    text = run_text(GROUP + "cut A B\ncut A C\nA sends q\nrelease all\nrelease q\ndrop held\nsettle 1s\n", rewrite=True).text
    assert [line for line in text.splitlines() if line.startswith(">")] == [
        "> no such frame is held",
        "> no frame of q is held",
        "> no such frame is held",
        "> not at rest after 1s",
    ]


def test_everything_that_can_be_shown_is_shown() -> None:
    """A command of the language would fail the first time somebody needs it."""
    commands = ["deliveries", "deliveries at A B", "held", "why q at B", "stats at A", "rules", "time"]
    commands += ["frames", "frames data from A", "held frames"]
    story = GROUP + "hold data from A to C\nA sends q\nwait 1ms\n" + "".join(f"show {what}\n" for what in commands)
    lines = run_text(story, rewrite=True).text.splitlines()
    rule = "hold data from A to C out"
    for line in ("> A delivered q", "> A -> B: 1 data", f"> data from A to C, by `{rule}`", f"> {rule}: acted on 1 of 1", "> 1ms"):
        assert line in lines


def test_the_opening_lines_say_what_they_mean() -> None:
    """The scenario would run in another world than it describes."""
    opening = parse_group(split("total tree members A B seed 9 delivery safe window 64 fanout 3"))
    options = opening.options
    assert (opening.members, opening.seed) == (("A", "B"), 9)
    assert (options.order, options.multicast, options.delivery, options.window, options.fanout) == ("total", "tree", "safe", 64, 3)
    words = split("latency 20ms..200ms loss 2% duplicate 1% reorder 5% by 10ms bandwidth 1000 queue 2s keyed")
    assert parse_network(words, NetworkModel()) == NetworkModel(
        latency=Uniform(0.02, 0.2), loss=0.02, duplicate=0.01, reorder=0.05, reorder_s=0.01, bandwidth=1000.0, queue_s=2.0, keyed=True
    )
    one_link = parse_network(split("from A to B loss 50%"), NetworkModel(loss=0.1))
    assert one_link == NetworkModel(loss=0.1, links={("A", "B"): LinkModel(loss=0.5)})
    assert [latency(text) for text in ("5ms", "5ms+20ms", "20ms~0.5")] == [Constant(0.005), Exponential(0.005, 0.02), LogNormal(0.02, 0.5)]
    assert parse_settings(split("nack_s 100ms frame_bytes 1400"), Settings()) == Settings(nack_s=0.1, frame_bytes=1400)
    with pytest.raises(InvalidOption, match="256"):
        parse_settings(split("frame_bytes 10"), Settings())
