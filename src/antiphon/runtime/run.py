"""`antiphon.run(main())`: like `asyncio.run`, on uvloop where there is one, which carries twice as much.

Ctrl-C cancels `main`, so that its nodes leave their groups, and ends the program with exit code 130 and without a traceback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def run(main: Coroutine[Any, Any, Result], *, debug: bool | None = None) -> Result:
    try:
        with asyncio.Runner(debug=debug, loop_factory=loop_factory()) as runner:
            return runner.run(main)
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def loop_factory() -> Any:
    """What makes the fastest event loop there is."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
