"""Frames as tests write them: members are named A, B, C …, and their messages A1, B2.

    >>> message("B2")
    MessageId(sender='B', seqno=2)
    >>> two = batch("B", 2, b"Yes", b"No", parents=["A1", None])
    >>> two.last, two.follows(2)
    (3, (MessageId(sender='A', seqno=1),))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from antiphon.model.frames import Batch, Record, Stamp
from antiphon.model.ids import GroupId, MemberId, MessageId

GROUP = GroupId("test")

Message: TypeAlias = MessageId | str
"""A message id, or its short form: a member's name and a number, like `B2`."""


def message(short: Message) -> MessageId:
    """The id that a short form means."""
    if isinstance(short, MessageId):
        return short
    name = short.rstrip("0123456789")
    if not name or name == short:
        raise ValueError(f"{short!r} is no message: write a member's name and a number, like B2")
    return MessageId(MemberId(name), int(short[len(name) :]))


def batch(
    sender: str,
    first: int,
    *payloads: bytes,
    parents: Sequence[Message | None] | None = None,
    after: Mapping[int, Sequence[Message]] | None = None,
    stamp: Stamp = None,
    view: int = 1,
) -> Batch:
    """Messages `first …` of `sender`, one per payload (one that says who it is when there is none). `parents` has one entry per
    message, `after` maps numbers to what they follow as well."""
    contents = list(payloads) or [f"{sender}{first}".encode()]
    if parents is not None and len(parents) != len(contents):
        raise ValueError(f"{len(contents)} messages need {len(contents)} parents, None for those that answer nothing")
    return Batch.compose(
        GROUP,
        MemberId(sender),
        view,
        first,
        contents,
        None if parents is None else [None if parent is None else message(parent) for parent in parents],
        stamp,
        0.0,
        None if after is None else {seqno: [message(name) for name in names] for seqno, names in after.items()},
    )


def record(sender: str, first: int, last: int, body: Stamp, view: int = 1) -> Record:
    """Numbers `first … last` of the record stream of `sender`."""
    return Record(GROUP, MemberId(sender), view, first, last, body)
