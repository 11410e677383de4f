"""Every ordering, played by hand: what comes in, what must come out."""

from __future__ import annotations

from itertools import permutations

import pytest

from antiphon.model.options import Settings
from antiphon.testing import asks, batch, delivers, drops, got, holds, nothing, orphans, play, record, records, refuses, sends, view, waits

# -- unordered, fifo ---------------------------------------------------------------------------------------------------------------


def test_unordered_delivers_on_receipt() -> None:
    """Who asked for no order must not pay for one."""
    b1, b2 = batch("B", 1), batch("B", 2)
    play("unordered") >> got(b2) << delivers(b2) << holds(0) >> got(b1) << delivers(b1)


def test_fifo_holds_what_came_early_and_releases_it_in_order() -> None:
    """A sender's second sentence would be read before its first."""
    b1, b2, b3 = batch("B", 1), batch("B", 2), batch("B", 3)
    play("fifo") >> got(b3) << nothing() << holds(1) >> got(b2) << nothing() << holds(2) >> got(b1) << delivers(b1, b2, b3) << holds(0)


def test_fifo_never_makes_one_sender_wait_for_another() -> None:
    """One member's lost frame would silence the whole group."""
    play("fifo") >> got(batch("B", 2)) << nothing() >> got(batch("C", 1)) << delivers("C1") << holds(1)


def test_fifo_takes_parts_of_a_batch_that_overlaps() -> None:
    """A repaired batch that overlaps what is here would be delivered twice, or not at all; the multicast cuts it, the order follows."""
    whole = batch("B", 1, b"1", b"2", b"3", b"4")
    play("fifo") >> got(whole, 3, 4) << nothing() << holds(2) >> got(batch("B", 1, b"1")) << delivers("B1") >> got(whole, 2, 2) << delivers(
        "B2", "B3", "B4"
    )


def test_fifo_gives_up_what_no_survivor_can_complete() -> None:
    """After a crash the survivors would hold a dead member's messages for ever."""
    play("fifo") >> got(batch("B", 2)) << holds(1) >> view("A", "C", "D") << nothing() << holds(0) << drops("lost_predecessor")


# -- causal ------------------------------------------------------------------------------------------------------------------------


def test_causal_holds_an_effect_until_its_cause() -> None:
    """The answer of C would be read before the question of B that C had read."""
    question, answer = batch("B", 1), batch("C", 1, stamp=[1, 1])
    play("causal") >> got(answer) << nothing() << holds(1) >> got(question) << delivers("B1", "C1") << holds(0)


def test_causal_follows_chains_whatever_the_arrival() -> None:
    """A chain of effects that arrives backwards must unroll at once, in its order, or something waits for nothing."""
    chain = [batch("B", 1), batch("C", 1, stamp=[1, 1]), batch("D", 1, stamp=[1, 1, 2, 1]), batch("B", 2, stamp=[3, 1])]
    for arrival in permutations(chain):
        book = play("causal")
        told: list[str] = []
        for frame in arrival:
            book = book >> got(frame)
            told += book.delivered()
        assert told == ["B1", "C1", "D1", "B2"]


def test_causal_stamps_only_what_changed() -> None:
    """A header that names every member on every batch grows with the group; one that names too little loses causality."""
    book = play("causal") >> got(batch("B", 1)) << delivers("B1")
    assert book.ordering.stamp(1, 1) == [1, 1]
    book = book >> got(batch("C", 1)) << delivers("C1")
    assert book.ordering.stamp(2, 2) == [2, 1]
    assert book.ordering.stamp(3, 3) is None


def test_causal_refuses_a_stamp_that_makes_no_sense() -> None:
    """A broken peer could make this member wait for a member that does not exist."""
    for stamp in ([1], [9, 1], [-1, 1], b"x"):
        play("causal") >> got(batch("B", 1, stamp=stamp)) << refuses("malformed_stamp") << holds(0)


# -- total -------------------------------------------------------------------------------------------------------------------------


def test_total_delivers_when_data_and_place_are_here_in_either_order() -> None:
    """Data or its record, whichever is later, would never be delivered."""
    place = record("A", 1, 1, [1, 1, 1])
    play("total", me="D") >> got(batch("B", 1)) << nothing() << holds(1) >> got(place) << delivers("B1") << holds(0)
    play("total", me="D") >> got(place) << nothing() << holds(0) >> got(batch("B", 1)) << delivers("B1")


def test_total_follows_the_sequencer_and_not_the_arrival() -> None:
    """Two replicas would apply the same two updates in different orders."""
    book = play("total", me="D") >> got(batch("B", 1)) >> got(batch("C", 1)) << nothing() << holds(2)
    book >> got(record("A", 1, 2, [2, 1, 1, 1, 1, 1])) << delivers("C1", "B1") << holds(0)


def test_total_cuts_a_batch_where_its_place_ends() -> None:
    """The sequencer numbers messages, not batches: what of a batch has no place yet must wait, the rest must not."""
    book = play("total", me="D") >> got(batch("B", 1, b"1", b"2", b"3")) >> got(record("A", 1, 2, [1, 1, 2])) << delivers("B1", "B2")
    book << holds(1) >> got(record("A", 3, 3, [1, 3, 3])) << delivers("B3") << holds(0)


def test_total_numbers_at_the_sequencer_each_sender_in_its_order() -> None:
    """A sequencer that numbers what came early would break every sender's own order, for all members."""
    book = play("total", me="A") >> got(batch("B", 2)) << nothing() << holds(1)
    book >> got(batch("B", 1)) << records([1, 1, 2]) << delivers("B1", "B2")


def test_total_counts_a_record_that_makes_no_sense() -> None:
    """A record of somebody who is not the sequencer, or of the wrong length, would number messages twice."""
    for strange in (record("B", 1, 1, [1, 1, 1]), record("A", 1, 1, [1, 1]), record("A", 1, 5, [1, 1, 1]), record("A", 1, 1, [9, 1, 1])):
        play("total", me="D") >> got(batch("B", 1)) >> got(strange) << nothing() << drops("malformed_record") << holds(1)


def test_total_goes_on_without_its_sequencer() -> None:
    """With the sequencer dead, what it had not numbered must be delivered at every survivor, in one order."""
    seen = set()
    for me in "BCD":
        for arrival in permutations([batch("B", 1), batch("C", 1), batch("A", 1)]):
            book = play("total", me=me)
            for frame in arrival:
                book = book >> got(frame) << nothing()
            book = book >> view("B", "C", "D") << holds(0)
            seen.add(tuple(book.delivered()))
    assert len(seen) == 1
    assert seen == {("A1", "B1", "C1")}


def test_total_leaves_out_what_its_dead_sequencer_may_have_answered() -> None:
    """The sequencer may have answered a message whose place it told nobody: survivors cannot tell which, and must not see the answer
    without it."""
    for arrival in permutations([batch("C", 1), batch("A", 1, stamp=[1])]):
        book = play("total", me="B")
        for frame in arrival:
            book = book >> got(frame) << nothing()
        book >> view("B", "C", "D") << delivers("C1") << drops("lost_predecessor")


def test_total_drops_what_follows_a_message_that_is_lost() -> None:
    """Delivered, it would stand before a message that its sender had seen and that nobody can ever deliver."""
    play("total", me="B") >> got(batch("A", 1, stamp=[1])) << nothing() >> view("B", "C", "D") << nothing() << drops("lost_predecessor")


# -- semantic ----------------------------------------------------------------------------------------------------------------------


def test_semantic_worked_example_of_the_illustration() -> None:
    """The illustration of the semantic order must come out exactly, store sizes included: 0, 1, 2, 0, 0."""
    b1, b2 = batch("B", 1), batch("B", 2, parents=["B1"])
    b3, b4 = batch("B", 3, parents=["B2"]), batch("B", 4, parents=["B3"])
    book = play("semantic") >> got(b1) << delivers(b1) << holds(0) >> got(b3) << nothing() << holds(1) >> got(b4) << nothing() << holds(2)
    book >> got(b2) << delivers(b2, b3, b4) << holds(0) >> sends(b"and so?", reply_to="B2") << delivers("A1") << holds(0)


def test_semantic_threaded_chat_in_all_arrivals() -> None:
    """Two questions, two answers: whatever the arrival, each answer follows its question and never waits for the other one."""
    delhi, chennai = batch("C", 1, b"Did you visit Delhi?"), batch("C", 2, b"Did you visit Chennai?")
    no, yes = batch("A", 1, b"No", parents=["C2"]), batch("B", 1, b"Yes", parents=["C1"])
    question_of = {"A1": "C2", "B1": "C1"}
    arrivals = list(permutations([delhi, chennai, no, yes]))
    assert len(arrivals) == 24
    for arrival in arrivals:
        book = play("semantic", me="D")
        here: list[str] = []
        answers_by_question: dict[str, list[str]] = {}
        for frame in arrival:
            book = book >> got(frame)
            here.append(f"{frame.sender}{frame.first}")
            for name in book.delivered():
                if name in question_of:
                    answers_by_question[question_of[name]].append(name)  # the question is in the tree already
                else:
                    answers_by_question[name] = []
            # Exactly what can be delivered is: an answer is there as soon as it and its own question are.
            there = {name for question, answers in answers_by_question.items() for name in (question, *answers)}
            assert there == {name for name in here if question_of.get(name, name) in here}
        assert answers_by_question == {"C1": ["B1"], "C2": ["A1"]}


def test_semantic_messages_of_a_batch_do_not_wait_for_each_other() -> None:
    """A batch is a frame, never a unit of delivery: one waiting answer must not hold its neighbours."""
    mixed = batch("B", 1, b"hello", b"answer", b"goodbye", parents=[None, "C1", None])
    play("semantic") >> got(mixed) << delivers("B1", "B3") << holds(1) >> got(batch("C", 1)) << delivers("C1", "B2") << holds(0)


def test_semantic_message_after_several_waits_for_all_of_them() -> None:
    """A summary would be read before the last of the messages it sums up."""
    summary = batch("B", 1, parents=["C1"], after={1: ["C2", "D1"]})
    book = play("semantic") >> got(summary) << nothing() << holds(1) >> got(batch("C", 2)) << delivers("C2") << holds(1)
    book >> got(batch("D", 1)) << delivers("D1") << holds(1) >> got(batch("C", 1)) << delivers("C1", "B1") << holds(0)


def test_semantic_message_that_only_follows_waits_too() -> None:
    """A message that answers nobody and yet follows others must not overtake them."""
    play("semantic") >> got(batch("B", 1, after={1: ["C1"]})) << nothing() << holds(1) >> got(batch("C", 1)) << delivers("C1", "B1")


def test_semantic_refuses_to_answer_what_was_not_read() -> None:
    """An answer to a message that its sender never read could make everybody wait for something that does not exist."""
    play("semantic") >> sends(b"yes", reply_to="B1") << refuses("UnknownParent") >> sends(b"me", reply_to="A1") << refuses("UnknownParent")


def test_semantic_delivers_an_answer_to_what_cannot_exist_as_an_orphan() -> None:
    """A broken peer could fill the store with messages that wait for ever; or some members drop what others deliver."""
    for parent in ("B1", "B7", "Z1"):
        play("semantic") >> got(batch("B", 1, parents=[parent])) << orphans("B1", parent) << holds(0)


def test_semantic_decides_on_a_departed_sender_by_the_past_of_the_group() -> None:
    """An answer to a number that a departed member never used would wait until the next view, and one to its last message be an orphan."""
    book = play("semantic", members="ABC") >> got(batch("C", 1)) >> got(batch("C", 3)) >> view("A", "B")
    book = book >> got(batch("B", 1, parents=["C3"], view=2)) << delivers("B1") >> got(batch("B", 2, parents=["C2"], view=2))
    book = book << orphans("B2", "C2") >> got(batch("B", 3, parents=["C4"], view=2)) << orphans("B3", "C4") << holds(0)
    book >> sends(b"", reply_to="C3") << delivers("A1") >> sends(b"", after=["C3", "C4"]) << refuses("UnknownParent")


def test_semantic_waits_for_the_parents_that_can_come_before_it_marks_the_others() -> None:
    """A message after several, one of which cannot exist, would be delivered before the others, or without the mark."""
    for after in (["C1", "Z1"], ["Z1", "C1"], ["B9", "C1"]):
        lost = next(name for name in after if name != "C1")
        book = play("semantic") >> got(batch("B", 1, after={1: after})) << nothing() << holds(1) >> got(batch("C", 1)) << holds(0)
        assert book.delivered() == ["C1", f"B1 without {lost}"]


def test_semantic_orphans_a_message_that_names_a_later_one_of_its_sender_in_every_arrival() -> None:
    """B1 names B3. Who has B3 first would deliver B1 as if all were well."""
    for arrival in permutations([batch("B", 1, parents=["B3"]), batch("B", 2), batch("B", 3)]):
        book, there = play("semantic"), []
        for frame in arrival:
            book = book >> got(frame)
            there += book.delivered()
        assert sorted(there) == ["B1 without B3", "B2", "B3"]


def test_semantic_opens_circles_alike_in_every_arrival() -> None:
    """B1, C1 and D1 name each other in a circle, and D2 answers D1: they would wait until the next view, or differ in what is marked."""
    frames = [batch("B", 1, parents=["C1"]), batch("C", 1, parents=["D1"]), batch("D", 1, parents=["B1"]), batch("D", 2, parents=["D1"])]
    for arrival in permutations(frames):
        book = play("semantic", settings=Settings(parent_s=1.0))
        for frame in arrival:
            book = book >> got(frame) << nothing()
        book = book >> waits(2.5) << holds(0)
        assert book.delivered() == ["B1 without C1", "D1", "C1", "D2"] or book.delivered() == ["B1 without C1", "D1", "D2", "C1"]


def test_semantic_asks_for_a_parent_that_does_not_come() -> None:
    """Waiting in silence for a lost question would be waiting for ever."""
    book = play("semantic", settings=Settings(parent_s=1.0)) >> got(batch("B", 1, parents=["C1"])) << asks() >> waits(2.5)
    book << asks("C1") << holds(1)


def test_semantic_gives_a_parent_up_where_nobody_repairs() -> None:
    """Over best effort a lost question must not swallow its answers; they come, marked."""
    book = play("semantic", settings=Settings(parent_s=1.0), repairs=False) >> got(batch("B", 2, parents=["B1"])) << nothing() >> waits(2.5)
    book << orphans("B2", "B1") << holds(0)


def test_semantic_remembers_a_parent_given_up_while_another_was_awaited() -> None:
    """A message that waits for two, of which one is given up and the other comes, must still say that one is lost."""
    book = play("semantic", settings=Settings(parent_s=1.0), repairs=False) >> got(batch("B", 1, parents=["C1"])) >> waits(1.5)
    book = book >> got(batch("B", 2, parents=["C1"], after={2: ["D1"]})) << holds(2) >> waits(1.0) << orphans("B1", "C1") << holds(1)
    book = book >> got(batch("D", 1)) << holds(0)
    assert book.delivered() == ["D1", "B2 without C1"]


def test_semantic_delivers_what_a_dead_member_left_unanswered() -> None:
    """The question died with its sender; the answers must not die with it."""
    answer, reply = batch("B", 1, parents=["C1"]), batch("D", 1, parents=["B1"])
    book = play("semantic") >> got(answer) >> got(reply) << holds(2) >> view("A", "B", "D") << holds(0)
    assert book.delivered() == ["B1 without C1", "D1"]


def test_semantic_reply_chain_needs_no_recursion() -> None:
    """A chain of 100,000 answers released at once would overflow the stack of a recursive release."""
    length = 100_000
    book = play("semantic")
    for first in range(length, 1, -1_000):
        low = max(first - 999, 2)
        parents = [f"B{seqno - 1}" for seqno in range(low, first + 1)]
        book = book >> got(batch("B", low, *[b""] * len(parents), parents=parents))
    book = book << holds(length - 1) >> got(batch("B", 1)) << holds(0)
    assert book.delivered() == [f"B{seqno}" for seqno in range(1, length + 1)]


@pytest.mark.parametrize("order", ["fifo", "causal", "total", "semantic"])
def test_a_newcomer_starts_at_its_cut(order: str) -> None:
    """A member that joins late would wait for all that was said before its time."""
    book = play(order, members="AB") >> view("A", "B", "C", cut={"C": 5}) << nothing() >> got(batch("C", 6, view=2)) << delivers("C6")
    book << holds(0)
