"""Who may import whom, and what the parts that must be deterministic may not touch.

The rules are data at the top; `violations` reads one module's source and says which it breaks, so that every rule can also be
shown to see a module that breaks it.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

import antiphon

pytestmark = pytest.mark.usefixtures("uncollected")

SOURCE = Path(antiphon.__file__).parent

_NOUNS = {"errors", "model"}
_CORE = _NOUNS | {"protocol", "trace", "debugger", "store"}
_DRIVERS = {"sim", "runtime"}

# Each part of the package with the parts it may import beside itself. `root` is the lazy antiphon/__init__.py.
SEES: dict[str, set[str]] = {
    "errors": set(),
    "model": {"errors"},
    "protocol": _NOUNS,
    "trace": _NOUNS,
    "debugger": _NOUNS,
    "store": _NOUNS,
    "api": _CORE,
    "sim": _CORE | {"api"},
    "runtime": _CORE | {"api"},
    "sync": _CORE | {"api", "runtime"},
    "gateway": _CORE | {"api"} | _DRIVERS,
    "apps": _CORE | {"api"} | _DRIVERS,
    "testing": _CORE | {"api", "sim"},
    "spark": _NOUNS | {"trace", "sim", "store"},
    "bench": _CORE | {"api"} | _DRIVERS,
    "cli": _CORE | {"api", "bench", "testing", "gateway", "apps", "spark", "sync", "root"} | _DRIVERS,
    "root": _CORE | {"api", "sync"} | _DRIVERS,
}

# Below the drivers nothing reads a clock, sleeps, logs, awaits, opens a socket or draws from global randomness.
PURE = {"errors", "model", "protocol", "debugger"}
OUTSIDE = {
    *("asyncio", "concurrent", "datetime", "logging", "multiprocessing", "queue", "sched", "secrets", "select", "selectors"),
    *("signal", "socket", "socketserver", "ssl", "subprocess", "threading", "time", "urllib", "uuid", "uvloop"),
}
# The simulator may use processes, but what happens in a world comes from its seed alone.
SEEDED = PURE | {"sim", "testing"}
CLOCKS_AND_CHANCE = {"datetime", "secrets", "time", "uuid"}

# What may be imported at the top of a module by everything that the core installation must be able to import.
LEAN = _CORE | _DRIVERS | {"api", "bench", "sync", "testing", "root"}
LEAN_PACKAGES = {"antiphon", "msgspec", *sys.stdlib_module_names}
UVLOOP_USERS = {"runtime"}


def violations(part: str, source: str) -> list[str]:
    """The rules that a module of `part` with this source breaks, each as a sentence with its line."""
    tree = ast.parse(source)
    found: list[str] = []
    for node, module, name in _imports(tree):
        top, _, rest = module.partition(".")
        if top == "antiphon":
            target = rest.partition(".")[0] or (name if name in SEES else "root")
            if target not in SEES:
                found.append(f"line {node.lineno}: antiphon.{target} is not a part of the house")
            elif target != part and target not in SEES[part]:
                found.append(f"line {node.lineno}: {part} may not import {target}")
        elif (part in PURE and top in OUTSIDE) or (part in SEEDED and top in CLOCKS_AND_CHANCE):
            found.append(f"line {node.lineno}: {part} may not import {top}")
        if part in SEEDED and module == "random" and name not in (None, "Random"):
            found.append(f"line {node.lineno}: {part} may not use global randomness (random.{name})")
    for node in ast.walk(tree):
        if part in PURE and isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            found.append(f"line {node.lineno}: {part} may not await")
        if part in SEEDED and isinstance(node, ast.Attribute) and _dotted(node.value) == "random" and node.attr != "Random":
            found.append(f"line {node.lineno}: {part} may not use global randomness ({_dotted(node)})")
        if part in SEEDED and isinstance(node, ast.Call) and not node.args and _dotted(node.func) in ("random.Random", "Random"):
            found.append(f"line {node.lineno}: {part} may not make a generator without a seed")
    if part in LEAN:
        for node, module, _ in _imports(tree, at_load_only=True):
            top = module.partition(".")[0]
            if top not in LEAN_PACKAGES and not (top == "uvloop" and part in UVLOOP_USERS):
                found.append(f"line {node.lineno}: {part} needs {top} as soon as it is loaded; import it where it is used")
    return found


def _imports(tree: ast.Module, at_load_only: bool = False) -> Iterator[tuple[ast.stmt, str, str | None]]:
    """Every imported (node, module, name or None); optionally without those in functions and under TYPE_CHECKING."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from ((node, alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = ("antiphon." if node.level else "") + (node.module or "")
            yield from ((node, module.rstrip("."), alias.name) for alias in node.names)
        elif at_load_only and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        elif at_load_only and isinstance(node, ast.If) and _dotted(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            waiting.extend(node.orelse)
        else:
            waiting.extend(ast.iter_child_nodes(node))


def _dotted(node: ast.expr) -> str:
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def _part_of(path: Path) -> str:
    relative = path.relative_to(SOURCE)
    part = relative.parts[0].removesuffix(".py")
    return "root" if part == "__init__" else part


MODULES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_keeps_the_rules(path: Path) -> None:
    """A layer that reaches past the one below, or a core that reads a clock, would behave otherwise in the simulator than outside."""
    part = _part_of(path)
    assert part in SEES, f"{part} is not a part of the house: say in SEES what it may import"
    assert violations(part, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("part", "source", "complaint"),
    [
        ("model", "from antiphon.protocol.stage import Context", "model may not import protocol"),
        ("model", "import antiphon.sim.view_world", "model may not import sim"),
        ("protocol", "from antiphon import sim", "protocol may not import sim"),
        ("protocol", "def late():\n    from antiphon.runtime import tcp", "protocol may not import runtime"),
        ("protocol", "from antiphon import View", "protocol may not import root"),
        ("sim", "from antiphon.runtime.udp import Udp", "sim may not import runtime"),
        ("runtime", "import antiphon.sim", "runtime may not import sim"),
        ("testing", "from antiphon.runtime import tcp", "testing may not import runtime"),
        ("spark", "from antiphon.gateway import station", "spark may not import gateway"),
        ("apps", "from antiphon.cli import main", "apps may not import cli"),
        ("debugger", "from antiphon.protocol.endpoint import Endpoint", "debugger may not import protocol"),
        ("sim", "from antiphon.extras import x", "antiphon.extras is not a part of the house"),
        ("protocol", "import time", "protocol may not import time"),
        ("protocol", "from asyncio import sleep", "protocol may not import asyncio"),
        ("model", "import socket", "model may not import socket"),
        ("debugger", "import logging", "debugger may not import logging"),
        ("protocol", "async def f(): ...", "protocol may not await"),
        ("protocol", "import random\nx = random.random()", "global randomness (random.random)"),
        ("sim", "from random import choice", "global randomness (random.choice)"),
        ("sim", "import random\nr = random.Random()", "without a seed"),
        ("sim", "from time import monotonic", "sim may not import time"),
        ("sim", "import matplotlib.pyplot", "sim needs matplotlib as soon as it is loaded"),
        ("protocol", "import uvloop", "protocol may not import uvloop"),
        ("store", "try:\n    import nats\nexcept ImportError:\n    nats = None", "store needs nats as soon as it is loaded"),
    ],
)
def test_a_broken_rule_is_seen(part: str, source: str, complaint: str) -> None:
    """A check that accepts everything would let the layers grow together unnoticed."""
    assert any(complaint in sentence for sentence in violations(part, source)), violations(part, source)


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("protocol", "import random\nfrom antiphon.model.view import View\ndef f(rng: random.Random) -> float: return rng.random()"),
        ("sim", "import random\nr = random.Random('7/network')\nfrom antiphon.protocol.endpoint import Endpoint"),
        ("sim", "def plot():\n    import matplotlib.pyplot"),
        ("runtime", "import asyncio, uvloop\nfrom antiphon.api.node import Node"),
        ("cli", "import typer\nfrom antiphon.sim import swarm\nfrom antiphon import __version__"),
    ],
)
def test_what_is_allowed_is_not_complained_about(part: str, source: str) -> None:
    """A check that cries wolf would be switched off."""
    assert violations(part, source) == []


def test_public_names_are_one_list() -> None:
    """A name that type checkers see and Python does not (or the reverse) would fail only in a user's program."""
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    typed = {name for _, _, name in _imports(tree)} - {"annotations", "import_module", "TYPE_CHECKING"}
    assert typed == set(antiphon.__all__)
    errors = [name for name in antiphon.__all__ if isinstance(kind := getattr(antiphon, name), type) and issubclass(kind, Exception)]
    assert len(antiphon.__all__) - len(errors) <= 50
    for name in antiphon.__all__:
        assert getattr(antiphon, name) is not None
    with pytest.raises(AttributeError, match="Nodule"):
        _ = antiphon.Nodule  # type: ignore[attr-defined]


def test_the_core_loads_without_any_extra() -> None:
    """Somebody who installed plain `antiphon` would get an ImportError from a package that they never asked for."""
    program = dedent("""
        import importlib, pathlib, sys
        extras = "typer rich textual pyarrow numpy matplotlib pandas pyspark starlette uvicorn websockets nats cryptography zmq zenoh redis"
        for extra in extras.split():
            sys.modules[extra] = None
        import antiphon
        assert "antiphon.protocol" not in sys.modules, "import antiphon must stay lazy"
        for name in antiphon.__all__:
            getattr(antiphon, name)
        top = pathlib.Path(antiphon.__file__).parent
        for path in sorted(top.rglob("*.py")):
            parts = path.relative_to(top.parent).with_suffix("").parts
            if parts[1] in ("errors", "model", "protocol", "trace", "debugger", "store", "api", "sim", "runtime", "testing"):
                importlib.import_module(".".join(parts).removesuffix(".__init__"))
        print("loaded")
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "loaded\n", done.stderr
