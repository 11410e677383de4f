"""Runs a program of the tests with nodes that hold a key: `python guarded.py KEY python -u PROGRAM ARGUMENTS…`."""

from __future__ import annotations

import functools
import runpy
import sys

import antiphon.runtime.node
from antiphon.runtime.security import PreSharedKey


def main() -> None:
    key, _, _, program, *arguments = sys.argv[1:]
    antiphon.runtime.node.Node = functools.partial(antiphon.runtime.node.Node, credentials=PreSharedKey(key))  # type: ignore[misc, assignment]
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
