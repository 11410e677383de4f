"""The conformance suite of stores: whoever writes a back end runs it, and needs to know no more than `contract.py` and this.

    async def another() -> Backend:              # one more handle on the same store, which is empty at first
        backend = MyBackend(url)
        await backend.open()
        return backend

    for check in CHECKS:                         # with your test runner: one test per check, each on a fresh store
        await check(another)
    failures = await run_suite(fresh_factory)    # or all at once

A check raises AssertionError with a sentence, or whatever the back end raised. What several processes do to one store is in
`antiphon.testing.store_processes`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from antiphon.testing.store_suite import (  # noqa: F401  (importing them puts their checks on the list)
    cancelling,
    collecting,
    erasing,
    holding,
    limits,
    mutable,
    names,
    numbers,
    publishers,
    readers,
    records,
    shared,
    steps,
    subscribers,
    times,
)
from antiphon.testing.store_suite.stage import CHECKS, Check, Factory

__all__ = ["CHECKS", "Check", "Factory", "run_suite"]


async def run_suite(fresh: Callable[[], Awaitable[Factory]], checks: Sequence[Check] = CHECKS) -> dict[str, Exception]:
    """Runs every check on a store of its own, for which `fresh` gives the factory. Returns what failed, by the name of the check."""
    failures: dict[str, Exception] = {}
    for check in checks:
        try:
            await check(await fresh())
        except Exception as error:
            failures[getattr(check, "__name__", repr(check))] = error
    return failures
