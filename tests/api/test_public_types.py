"""Every class that a user's program receives has one name in `antiphon`, so that `isinstance` means what it says."""

from __future__ import annotations

import ast
import inspect
import sys
import typing
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import antiphon
from antiphon import errors
from antiphon.api.archived_group import ArchivedGroup
from antiphon.api.group import Group, GroupEvent
from antiphon.api.node import Node as ApiNode
from antiphon.api.store_group import StoreGroup
from antiphon.store.subscription import Subscription

pytestmark = pytest.mark.usefixtures("uncollected")

SOURCE = Path(antiphon.__file__).parent
PUBLIC = (antiphon.Node, ApiNode, Group, StoreGroup, ArchivedGroup, antiphon.Store, antiphon.Topic, Subscription)
ITERATORS = {"__aiter__", "__anext__", "__iter__"}
MACHINERY = {"NodeCore", "EventStream", "Reading", "Batches", "Backend", "Publisher", "Batch"}
"""Iterators, and what is for those who look inside: users have no reason to name these."""


def classes_in(hint: object) -> Iterator[type]:
    """The classes of this project that a type annotation names, also as a part of another."""
    for argument in typing.get_args(hint):
        yield from classes_in(argument)
    kind = typing.get_origin(hint) or hint
    if inspect.isclass(kind) and kind.__module__.startswith("antiphon"):
        yield kind


def received() -> dict[type, str]:
    """The classes that public calls return, and those of their fields, each with the call or field."""
    found: dict[type, str] = {}
    for kind in PUBLIC:
        names = {name: value for base in reversed(kind.__mro__) for name, value in vars(sys.modules[base.__module__]).items()}
        for name, value in inspect.getmembers(kind):
            call = value.fget if isinstance(value, property) else value
            if (name.startswith("_") and name not in ITERATORS) or not inspect.isfunction(call):
                continue
            hint = typing.get_type_hints(call, globalns={**names, "Node": ApiNode}).get("return")
            found.update(dict.fromkeys(classes_in(hint), f"{kind.__name__}.{name}"))
    waiting = list(found)
    while waiting:
        kind = waiting.pop()
        hints = {} if kind.__name__ in MACHINERY else typing.get_type_hints(kind)
        held = {part: f"{kind.__name__}.{name}" for name, hint in hints.items() if not name.startswith("_") for part in classes_in(hint)}
        waiting += [part for part in held if part not in found]
        found = {**held, **found}
    return found


def test_every_class_that_users_receive_is_exported_under_its_name() -> None:
    """`isinstance(event, antiphon.X)` would be false in silence, or X could only be imported from inside of the library."""
    classes = received()
    assert len(classes) > 20
    assert set(classes_in(GroupEvent)) <= set(classes)
    hidden = {
        f"{kind.__module__}.{kind.__name__} ({where})"
        for kind, where in classes.items()
        if kind.__name__ not in MACHINERY and (kind.__name__ not in antiphon.__all__ or getattr(antiphon, kind.__name__) is not kind)
    }
    assert hidden == set()


def test_every_error_that_users_catch_is_exported() -> None:
    """`except antiphon.X` would raise AttributeError in the moment in which the error is to be handled."""
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, antiphon.AntiphonError)]
    assert len(kinds) > 20
    hidden = [kind.__name__ for kind in kinds if kind.__name__ not in antiphon.__all__ or getattr(antiphon, kind.__name__) is not kind]
    assert hidden == ["BadFrame"], "which is counted and never raised"


def test_no_two_classes_that_users_receive_have_one_name() -> None:
    """A program would ask for the one class and be given the other of the same name."""
    counts = Counter(kind.__name__ for kind in received())
    assert [name for name, count in counts.items() if count > 1] == []


def test_events_have_names_that_no_other_class_has() -> None:
    """A reader of the sources, or of a traceback, could not tell which of two classes of one name an event is."""
    defined = Counter(
        node.name
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    events = {kind.__name__ for kind in classes_in(GroupEvent)} | {"Gap", "GroupInfo", "Value"}
    assert {name: defined[name] for name in events if defined[name] != 1} == {}
