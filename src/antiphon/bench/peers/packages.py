"""The packages of other projects, loaded by name where they are used: none of them is needed to import this one."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any


def load(name: str) -> Any:
    return import_module(name)


def missing(*package_by_module: tuple[str, str]) -> str:
    """The command that installs what is not there; empty when all is. Takes pairs of a module and the package that has it."""
    wanted = [package for module, package in package_by_module if find_spec(module) is None]
    return f"pip install {' '.join(wanted)}" if wanted else ""
