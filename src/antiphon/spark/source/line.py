"""A store, called from code that does not await: the workers of Spark.

The store lives on an event loop of its own in a thread of its own, so that it goes on (answering its server, reading ahead) while Spark
takes its time with what it was given. Every call ends: after `timeout_s` at the store, which then is StoreUnreachable.

Opening costs a few milliseconds on SQLite, a connection and a few round trips on JetStream.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from antiphon.errors import StoreUnreachable
from antiphon.store.contract import Backend
from antiphon.store.opening import backend_for, require_made
from antiphon.store.reach import Reach
from antiphon.store.settings import StoreSettings

_GRACE_S = 15.0
"""What a call may take beyond the time that the store has to answer."""

T = TypeVar("T")


class Line:
    def __init__(self, url: str, timeout_s: float = 60.0, *, reading: bool = False) -> None:
        """`reading`: to a store that somebody has made; where there is none, none is made."""
        self._url, self._timeout_s, self._reading = url, timeout_s, reading
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"line to {url}", daemon=True)
        self.reach = Reach(backend_for(url), StoreSettings(timeout_s=timeout_s, collect_s=0))

    @property
    def backend(self) -> Backend:
        return self.reach.backend

    def open(self) -> Self:
        if self._reading:
            require_made(self._url)
        self._thread.start()
        try:
            self.run(self.reach.open(later=False))
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        if not self._thread.is_alive():
            return
        try:
            with suppress(StoreUnreachable):
                self.run(self.reach.close())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_GRACE_S)
            if not self._thread.is_alive():
                self._loop.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # -- calls -----------------------------------------------------------------------------------------------------------------

    def ask(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """One call of the contract, repeated while the store does not answer."""
        return self.run(self.reach.insist(call))

    def begin(self, call: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """The same without waiting for it: `outcome` does."""
        return asyncio.run_coroutine_threadsafe(self.reach.insist(call), self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.outcome(asyncio.run_coroutine_threadsafe(work, self._loop))

    def outcome(self, future: Future[T]) -> T:
        try:
            return future.result(self._timeout_s + _GRACE_S)
        except TimeoutError as error:
            if future.done():
                raise  # the call's own
            future.cancel()
            raise StoreUnreachable(self.reach.url, f"no answer for {self._timeout_s + _GRACE_S:.0f} s") from error
