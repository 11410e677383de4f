"""A class name stands for one thing in the whole project.

`antiphon.sync` mirrors the asynchronous API under the same public names; those are no clashes. `REPEATED` lists the names that are still
used more than once, each with the number of its classes. Entries may only go: a clash that is not listed fails, and so does an entry that
is too high.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import antiphon
import antiphon.sync

pytestmark = pytest.mark.usefixtures("uncollected")

SOURCE = Path(antiphon.__file__).parent
MIRRORED = frozenset(antiphon.sync.__all__)

REPEATED: dict[str, int] = {
    "Allowance": 2,
    "Answer": 2,
    "Archive": 2,
    "Batch": 3,
    "Cell": 2,
    "Clock": 2,
    "Collected": 2,
    "Continuation": 2,
    "Conversation": 3,
    "Delivered": 2,
    "Deliveries": 2,
    "Difference": 2,
    "Dispatch": 2,
    "Door": 2,
    "Entry": 3,
    "Evidence": 2,
    "Finding": 2,
    "Found": 2,
    "Held": 2,
    "History": 2,
    "House": 2,
    "Incoming": 2,
    "Install": 2,
    "Job": 2,
    "Journal": 2,
    "Letter": 2,
    "Life": 2,
    "Line": 7,
    "Member": 3,
    "Membership": 2,
    "Message": 2,
    "Missed": 2,
    "Node": 2,
    "Order": 2,
    "Outbox": 3,
    "Outcome": 3,
    "Part": 2,
    "Past": 2,
    "Piece": 3,
    "Placed": 2,
    "Plan": 2,
    "Presence": 2,
    "Private": 2,
    "Progress": 2,
    "Publisher": 2,
    "Question": 2,
    "Questions": 2,
    "Reach": 2,
    "Reading": 2,
    "Received": 2,
    "Record": 2,
    "Recorder": 2,
    "Recording": 2,
    "Result": 2,
    "Row": 3,
    "Rule": 2,
    "Running": 2,
    "Scene": 2,
    "Seat": 2,
    "Seen": 2,
    "Sends": 2,
    "Shelf": 3,
    "State": 3,
    "StoreTranscript": 2,
    "Stored": 2,
    "Story": 2,
    "Stream": 2,
    "Summary": 2,
    "Taken": 2,
    "Tally": 2,
    "Topic": 2,
    "TopicStream": 2,
    "Trace": 2,
    "Transcript": 2,
    "Verdict": 3,
    "Violation": 3,
    "Witness": 3,
    "Worker": 2,
    "Writer": 3,
    "_Reader": 5,
}


def classes(modules: dict[str, str]) -> dict[str, list[str]]:
    """Return the modules of each class name, given the modules' sources by path. Public names of `antiphon.sync` are left out there."""
    modules_by_class: dict[str, list[str]] = defaultdict(list)
    for path, source in sorted(modules.items()):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef) and not (path.startswith("sync/") and node.name in MIRRORED):
                modules_by_class[node.name].append(path)
    return modules_by_class


def clashes(modules: dict[str, str]) -> dict[str, list[str]]:
    return {name: paths for name, paths in classes(modules).items() if len(paths) > 1}


def test_no_class_name_is_used_twice() -> None:
    """A reader who looks for a class by its name would open the wrong file, and `isinstance` with the wrong import is silently False."""
    modules = {str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    found = clashes(modules)
    new = {name: paths for name, paths in found.items() if len(paths) > REPEATED.get(name, 1)}
    assert not new, "rename all but one of them by what they are"
    gone = {name: count for name, count in REPEATED.items() if len(found.get(name, [""])) < count}
    assert not gone, "lower these entries of REPEATED, or remove them where one class is left"


def test_a_repeated_class_name_is_seen() -> None:
    """A check that finds no clash in two modules with one would never fail."""
    one = "class Candidate:\n    class Inner: ...\n"
    other = "def f():\n    class Candidate: ..."
    assert clashes({"model/a.py": one, "runtime/b.py": other}) == {"Candidate": ["model/a.py", "runtime/b.py"]}
    assert clashes({"model/a.py": one, "sync/a.py": "class Candidate: ..."}) == {"Candidate": ["model/a.py", "sync/a.py"]}
    assert clashes({"api/group.py": "class Group: ...", "sync/group.py": "class Group: ..."}) == {}
