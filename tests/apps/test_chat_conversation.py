"""The tree of a conversation: the same for everybody, complete, and bounded."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.apps.chat.conversation import Conversation
from antiphon.apps.chat.entries import Line, Notice, subtree
from antiphon.model.ids import MemberId, MessageId

ANA, BEN, CEM = (MemberId(f"{name}#{number:016x}") for number, name in enumerate(("ana", "ben", "cem"), 1))


def line(sender: MemberId, seqno: int, sent_at: float, answers: tuple[MemberId, int] | None = None, **more: Any) -> Line:
    return Line(MessageId(sender, seqno), f"{sender[0]}{seqno}", sent_at, answers=MessageId(*answers) if answers else None, **more)


def drawn(conversation: Conversation) -> list[str]:
    """The tree as it would be read, each line indented under what it answers."""
    return [
        f"{'  ' * entry.depth}{entry.text}{'?' if entry.orphan else ''}" if isinstance(entry, Line) else f"-- {entry.text}"
        for entry in conversation.entries()
    ]


@st.composite
def conversations(draw: st.DrawFn) -> list[tuple[MemberId, int, float, tuple[MemberId, int] | None]]:
    """Lines that answer earlier ones, ones that are not there, or nothing; clocks that agree, and clocks that do not."""
    count = draw(st.integers(1, 25))
    made: list[tuple[MemberId, int, float, tuple[MemberId, int] | None]] = []
    for number in range(1, count + 1):
        sender = draw(st.sampled_from((ANA, BEN, CEM)))
        parents = [None, (ANA, 1_000), *((who, seqno) for who, seqno, *_ in made)]
        made.append((sender, number, draw(st.sampled_from((1.0, 2.0, float(number)))), draw(st.sampled_from(parents))))
    return made


@given(conversations(), st.randoms(use_true_random=False))
def test_any_order_of_arrival_gives_the_same_tree(lines: list[Any], rng: random.Random) -> None:
    """Two people who read the same lines would see different conversations, because one of them was away for a while."""
    first, second = Conversation(ANA), Conversation(ANA)
    for each in lines:
        first.add(line(*each))
    shuffled = list(lines)
    rng.shuffle(shuffled)
    for each in shuffled:
        second.add(line(*each))
    assert drawn(first) == drawn(second)
    assert len(first) == len(lines)
    assert first.unread == second.unread == sum(sender != ANA for sender, *_ in lines)
    for conversation in (first, second):
        for thread in conversation.threads:
            assert isinstance(thread, Line)
            under = list(subtree(thread))
            assert (thread.size, thread.news) == (len(under), sum(each.unread for each in under))


@given(conversations(), st.randoms(use_true_random=False))
def test_what_comes_before_a_line_is_what_is_shown_before_it(lines: list[Any], rng: random.Random) -> None:
    """A new line would be drawn in the middle of another thread."""
    conversation = Conversation(ANA)
    for each in rng.sample(lines, len(lines)):
        conversation.add(line(*each))
    for thread in conversation.threads:
        assert isinstance(thread, Line)
        thread.folded = rng.random() < 0.3
    shown = list(conversation.entries())
    assert [conversation.before(entry) for entry in shown] == [None, *shown[:-1]]


def test_an_answer_stands_under_its_question_whatever_was_said_between() -> None:
    """The reader could not tell which question a Yes or a No belongs to."""
    conversation = Conversation(MemberId("dee#1"))
    conversation.add(line(CEM, 1, 1.0))
    conversation.add(line(CEM, 2, 2.0))
    conversation.add(line(ANA, 1, 3.0, (CEM, 2)))
    conversation.add(line(BEN, 1, 4.0, (CEM, 1)))
    assert drawn(conversation) == ["c1", "  b1", "c2", "  a1"]


def test_a_line_whose_parent_is_not_here_says_so_until_it_comes() -> None:
    """An answer to nothing would look like the beginning of a thread, or would not be shown at all."""
    conversation = Conversation(ANA)
    conversation.add(line(BEN, 2, 2.0, (BEN, 1), lost=True))
    conversation.add(line(CEM, 1, 3.0, (BEN, 2)))
    assert drawn(conversation) == ["b2?", "  c1"]
    placement = conversation.add(line(BEN, 1, 1.0))
    assert placement is not None
    assert [adopted.text for adopted in placement.adopted] == ["b2"]
    assert drawn(conversation) == ["b1", "  b2", "    c1"]


def test_lines_that_answer_each_other_are_shown_and_do_not_hang() -> None:
    """One hostile member could freeze the screens of all others."""
    conversation = Conversation(ANA)
    for each in (line(BEN, 1, 1.0, (BEN, 3)), line(BEN, 2, 2.0, (BEN, 1)), line(BEN, 3, 3.0, (BEN, 2)), line(BEN, 4, 4.0, (BEN, 4))):
        conversation.add(each)
    assert sorted(text.strip() for text in drawn(conversation)) == ["b1", "b2", "b3", "b4"]


def test_a_line_that_comes_twice_is_there_once() -> None:
    """A line that is synchronised after it was delivered would be shown twice."""
    conversation = Conversation(ANA)
    assert conversation.add(line(BEN, 1, 1.0)) is not None
    assert conversation.add(line(BEN, 1, 1.0)) is None
    assert (len(conversation), conversation.unread) == (1, 1)


def test_clocks_that_are_not_of_this_world_do_no_harm() -> None:
    """A line that was sent at no time would be equal to nothing, and the order of the others would fall apart."""
    conversation = Conversation(ANA)
    for number, sent_at in enumerate((float("nan"), 2.0, float("inf"), 1.0, float("-inf")), 1):
        conversation.add(line(BEN, number, sent_at))
    assert drawn(conversation) == ["b1", "b3", "b5", "b4", "b2"]


def test_notices_stand_behind_what_was_there() -> None:
    """ "Ben left" would be read before what Ben said, if his clock is ahead."""
    conversation = Conversation(ANA)
    conversation.add(line(BEN, 1, 100.0))
    placement = conversation.note("ben left", "left", 50.0)
    assert isinstance(placement.entry, Notice)
    conversation.add(line(CEM, 1, 101.0))
    assert drawn(conversation) == ["b1", "-- ben left", "c1"]


def test_unread_lines_are_found_in_turn_and_counted() -> None:
    """A question far up in an old thread would never be seen."""
    conversation = Conversation(ANA)
    first, answer, second = line(BEN, 1, 1.0), line(CEM, 1, 5.0, (BEN, 1)), line(BEN, 2, 2.0)
    for each in (first, answer, second):
        conversation.add(each)
    conversation.add(line(ANA, 1, 3.0))
    assert conversation.unread == 3
    assert conversation.next_unread() is first
    assert conversation.next_unread(first) is answer
    assert conversation.next_unread(second) is first, "from the end it goes on at the top"
    assert [conversation.see(each) for each in (first, answer, first)] == [True, True, False]
    assert (conversation.unread, first.news, conversation.next_unread()) == (1, 0, second)


def test_two_of_one_name_are_told_apart() -> None:
    """Somebody who takes Ana's name would be taken for Ana."""
    impostor = MemberId("ana#00000000000000ff")
    conversation = Conversation(ANA)
    conversation.add(line(impostor, 1, 1.0))
    assert (conversation.names.call(ANA), conversation.names.call(impostor), conversation.names.call(BEN)) == ("ana", "ana#2", "ben")


@pytest.mark.parametrize("shape", ["threads", "one question", "chain", "mixed"])
def test_a_conversation_without_end_keeps_to_its_bound(shape: str) -> None:
    """A group that talks for months would fill the memory, or its reader would see what is newest forgotten first."""
    limit, count, rng = 100, 1_234, random.Random(7)
    conversation = Conversation(ANA, limit)
    for number in range(1, count + 1):
        parent = {"threads": 0, "one question": 1, "chain": number - 1, "mixed": rng.choice((0, max(number - rng.randint(1, 150), 0)))}[
            shape
        ]
        conversation.add(line(BEN, number, float(number), (BEN, parent) if 0 < parent < number else None))
        if number % 7 == 0:
            conversation.note("something happened", "came", float(number))
        assert MessageId(BEN, number) in conversation
        shown = list(conversation.entries())
        assert len(shown) <= limit
        assert len(conversation) == sum(isinstance(entry, Line) for entry in shown) == conversation.unread
        assert conversation.forgotten == number - len(conversation)
    assert [conversation.before(entry) for entry in shown] == [None, *shown[:-1]]
    for thread in conversation.threads:
        if isinstance(thread, Line):
            under = list(subtree(thread))
            assert thread.size == thread.news == len(under)
            assert all(each.thread is thread and each.depth == (each.parent.depth + 1 if each.parent else 0) for each in under)


def test_the_thread_that_people_talk_in_is_not_the_one_that_is_forgotten() -> None:
    """The oldest thread would vanish under the hands of those who are answering in it."""
    conversation = Conversation(ANA, 100)
    conversation.add(line(CEM, 1, 0.0))
    for number in range(1, 500):
        conversation.add(line(BEN, number, float(number), (CEM, 1) if number % 40 == 0 else None))
    assert MessageId(CEM, 1) in conversation
