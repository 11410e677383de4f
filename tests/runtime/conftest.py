"""Members that are real processes, and networks of several hosts where this machine can make them."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.runtime.company import Company
    from tests.runtime.namespaces import Network


def _beside(name: str) -> ModuleType:
    """A module of this folder: tests are no package."""
    spec = importlib.util.spec_from_file_location(f"antiphon_test_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine runs on a loop of its own, at most a minute."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**arguments), 60.0))
    return True


_namespaces, _company = _beside("namespaces"), _beside("company")


@pytest.fixture
def network() -> type[Network]:
    """Makes networks: `with network(3) as hosts: …`; skips the test, with the reason, where there can be none."""
    if why := _namespaces.Network.unavailable():
        pytest.skip(why)
    return _namespaces.Network  # type: ignore[no-any-return]


@pytest.fixture
def company(tmp_path: Path) -> Iterator[Company]:
    """Members on loopback, over TCP, each a process of its own."""
    with _company.Company(tmp_path) as members:
        yield members


@pytest.fixture
def company_on() -> type[Company]:
    """Makes companies anywhere: `with company_on(tmp_path, transport="udp", launch=…) as company: …`."""
    return _company.Company  # type: ignore[no-any-return]
