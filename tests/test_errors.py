"""The tree of errors: whose fault, with which fields, across processes."""

from __future__ import annotations

import pickle

import pytest

from antiphon import errors
from antiphon.model.ids import MemberId, MessageId

EXAMPLES = [
    errors.InvalidOption("order", "alphabetical", "choose one of fifo, total"),
    errors.InvalidName("", "it is empty"),
    errors.GroupExists("trip", "there is a group of this name: join it"),
    errors.TooLarge(11, 10),
    errors.UnknownParent(MessageId(MemberId("ana#1"), 3)),
    errors.BadFile("story.txt", 7, "there is no member x"),
    errors.BadFrame("malformed"),
    errors.WouldBlock("the view is changing"),
    errors.NoQuorum(2, 5),
    errors.NotAMember("ana#1"),
    errors.NotInGroup("trip", "left"),
    errors.TimedOut("nothing could be sent for 3 s", 7),
    errors.JoinFailed("trip", "nobody answered"),
    errors.SendRefused("trip", "only its members may send"),
    errors.AskRefused("10.0.0.7:4040"),
    errors.UnknownTopic("crash"),
    errors.BadStore("sqlite:notes.txt", "it is no database"),
    errors.TopicTaken("crash", "ana"),
    errors.Fenced("the publisher 'ana' of 'crash'", "it was taken over"),
    errors.Conflict("the record 'ring/token'"),
    errors.StoreFull("sqlite:field.db", "the disk has no room"),
    errors.StoreUnreachable("sqlite:field.db", "it is locked"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_survives_a_process_boundary(error: errors.AntiphonError) -> None:
    """A worker's error would come out as a TypeError about its constructor, or not at all."""
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), vars(again)) == (str(error), vars(error))


def test_every_error_says_whose_fault_it_is() -> None:
    """A program could not tell what to mend from what to wait for."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.AntiphonError)]
    blames = (errors.UsageError, errors.PeerError, errors.WorldError)
    assert all(sum(issubclass(kind, blame) for blame in blames) == 1 for kind in kinds if kind is not errors.AntiphonError)
    assert {type(error) for error in EXAMPLES} == {kind for kind in kinds if not kind.__subclasses__()}
