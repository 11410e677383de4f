"""The way to the store: every call goes through it, is repeated while the store does not answer, and ends.

A call that meets StoreUnreachable is made again after a pause, until its time is over; the contract says that this is right for every call.
A store that was out of reach when it was opened is opened in the background, and calls wait for that, no longer than they may. Closing
ends whatever waits.

Costs about 10 µs per call. Keeps one entry per call that is under way.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from antiphon.errors import AntiphonError, InvalidOption, StoreUnreachable, UsageError
from antiphon.model.recording import StoreTranscript
from antiphon.store.contract import Backend
from antiphon.store.ending import end
from antiphon.store.settings import StoreSettings
from antiphon.store.tally import Tally

T = TypeVar("T")

_LONGEST_S = 1e9
"""Whoever says more means for ever."""


class Reach:
    def __init__(self, backend: Backend, settings: StoreSettings, answered: Callable[[], None] = lambda: None) -> None:
        """`answered` is called when the store answers again after it did not."""
        self.backend, self.settings = backend, settings
        self._tell_answered = answered
        self.tally = Tally()
        self.transcript: StoreTranscript | None = None
        """Takes down what subscribers are given."""
        self.trouble = ""
        """Why the store does not answer; empty when it did last time."""
        self.begun = self.closing = self.closed = False
        """How far its life has come: somebody has begun to open it, or to close it, and it is closed."""
        self._opened, self._closed = asyncio.Event(), asyncio.Event()
        self._opening: asyncio.Task[None] | None = None
        self._calls: set[asyncio.Timeout] = set()

    @property
    def url(self) -> str:
        return self.backend.url

    @property
    def is_open(self) -> bool:
        return self._opened.is_set() and not self.closed

    # -- life ------------------------------------------------------------------------------------------------------------------

    async def open(self, *, later: bool, then: Callable[[], None] = lambda: None) -> None:
        """Opens the store, and calls `then`. With `later`, one that does not answer now is opened when it does."""
        self.begun = True
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                await self.backend.open()
        except (StoreUnreachable, TimeoutError) as error:
            self.failed(error)
            if not later:
                raise self.unreachable() from None
            self._opening = asyncio.create_task(self._open_later(then), name=f"opening {self.url}")
        else:
            self._opened.set()
            then()

    async def _open_later(self, then: Callable[[], None]) -> None:
        pauses = _Pauses(self.settings)
        while True:
            await asyncio.sleep(pauses.next())
            try:
                async with asyncio.timeout(self.settings.timeout_s):
                    await self.backend.open()
            except (StoreUnreachable, TimeoutError) as error:
                self.failed(error)
            except AntiphonError as error:
                self.trouble = str(error)  # it is there and cannot be used: perhaps that is mended, so it is tried again
            else:
                self._opened.set()
                then()
                self.answered()
                return

    async def close(self) -> None:
        self.closing = self.closed = True
        self._closed.set()
        for call in list(self._calls):
            call.reschedule(asyncio.get_running_loop().time())
        await end(self._opening)
        with suppress(StoreUnreachable, TimeoutError):
            async with asyncio.timeout(self.settings.timeout_s):
                await self.backend.close()

    def check_open(self) -> None:
        if self.closing:
            raise UsageError("the store is closed: open another")
        if not self.begun:
            raise UsageError("the store was not opened, and would never answer: open it by `with`, or call its open()")

    # -- calls -----------------------------------------------------------------------------------------------------------------

    async def insist(
        self,
        ask: Callable[[], Coroutine[Any, Any, T]],
        timeout: float | None = None,
        *,
        while_wanted: Callable[[], bool] = lambda: True,
    ) -> T:
        """What `ask` returns, or raises, once the store answers; raises StoreUnreachable when it does not in time."""
        if self.closed or not self.begun:
            self.check_open()
        clock, until = asyncio.get_running_loop().time, self.until(timeout)
        pauses: _Pauses | None = None
        while True:
            call = asyncio.timeout_at(until)
            self._calls.add(call)
            try:
                async with call:
                    if not self._opened.is_set():
                        await self._opened.wait()
                    answer = await ask()
                if self.trouble:
                    self.answered()
                return answer
            except (StoreUnreachable, TimeoutError) as error:
                if isinstance(error, AntiphonError) and not isinstance(error, StoreUnreachable):
                    raise
                self.failed(error)
            finally:
                self._calls.discard(call)
            pauses = pauses or _Pauses(self.settings)
            pause = pauses.next()
            if self.closed or clock() + pause >= until or not while_wanted():
                raise self.unreachable()
            self.tally.retries += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._closed.wait()

    def until(self, timeout: float | None) -> float:
        """When the time of a call that begins now is over. What is no time is refused: one that is not a number would stop every timer."""
        if timeout is None:
            timeout = self.settings.timeout_s
        elif isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout != timeout:
            raise InvalidOption("timeout", timeout, "give a number of seconds")
        return asyncio.get_running_loop().time() + max(-_LONGEST_S, min(timeout, _LONGEST_S))

    def unreachable(self, number: int | None = None) -> StoreUnreachable:
        """The error for a call that is given up."""
        why = self.trouble or "it took too long"
        if self.closing:
            why = f"{self.trouble}, and it was closed here" if self.trouble else "it was closed here"
        error = StoreUnreachable(self.url, why)
        error.number = number
        return error

    def answered(self) -> None:
        self.trouble = ""
        self._tell_answered()

    def failed(self, error: Exception) -> None:
        """An attempt was not answered."""
        self.tally.unreachable += 1
        if isinstance(error, StoreUnreachable):
            self.trouble = error.why
        elif not self.trouble:
            self.trouble = "it took too long"


class _Pauses:
    """Growing pauses, no two programs' the same, so that they do not all come back at one moment."""

    def __init__(self, settings: StoreSettings) -> None:
        self._pause, self._longest = settings.retry_s, settings.retry_max_s

    def next(self) -> float:
        pause = min(self._pause, self._longest)
        self._pause = pause * 2
        return pause * random.uniform(0.5, 1.0)
