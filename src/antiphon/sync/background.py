"""The event loop behind all synchronous nodes of a process: one thread, started with the first call and shared by all.

`run` and `call` bring work to the loop and wait for its end. Whoever is interrupted while waiting (Ctrl-C) takes the work back: it is
cancelled, and every call of Antiphon may be. The thread never keeps a program alive: when the interpreter ends, nodes that are still open
leave their groups, at most `_CLOSE_S` long, and the thread ends. A forked child starts a thread of its own with its first call; the nodes
of its parent are not its nodes.

Cost: 80 µs per call, for two switches of threads; several times that where the processors are busy.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from antiphon.errors import UsageError
from antiphon.runtime.run import loop_factory

_CLOSE_S = 5.0
_GRACE_S = 2.0
"""What the loop may take beyond that."""

T = TypeVar("T")


class Closing(Protocol):
    async def close(self, *, timeout: float = ...) -> None: ...


class Background:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._nodes: dict[int, Closing] = {}
        self._abandoned = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the loop and returns, or raises, what it does."""
        try:
            loop = self._running()
        except BaseException:
            work.close()
            raise
        return _outcome(asyncio.run_coroutine_threadsafe(work, loop))

    def call(self, work: Callable[[], T]) -> T:
        """The same for a function, which is cheaper."""
        future: Future[T] = Future()

        def answer() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:
                    future.set_exception(error)

        self._running().call_soon_threadsafe(answer)
        return _outcome(future)

    def opened(self, node: Closing) -> None:
        """This node is closed when the interpreter ends, unless it was before."""
        self._nodes[id(node)] = node

    def closed(self, node: Closing) -> None:
        self._nodes.pop(id(node), None)

    def close(self) -> None:
        """Closes what is open and ends the thread."""
        with self._lock:
            loop, thread, nodes = self._loop, self._thread, list(self._nodes.values())
            self._loop = self._thread = None
            self._nodes.clear()
        if loop is None or thread is None or self._abandoned:
            return
        closing = [asyncio.run_coroutine_threadsafe(node.close(timeout=_CLOSE_S), loop) for node in nodes]
        for future in closing:
            with suppress(Exception):
                future.result(_CLOSE_S + _GRACE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_GRACE_S)

    def abandon(self) -> None:
        """This is the child of a fork: the thread is the parent's."""
        self._abandoned = True

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._abandoned:
            raise UsageError("this node belongs to the process that made it: after a fork, open another")
        if threading.current_thread() is self._thread:
            raise UsageError(
                "antiphon.sync was called on its own event loop, which would wait for itself: call it from another thread, "
                "or use antiphon.Node and await"
            )
        with self._lock:
            if self._loop is None:
                self._loop = loop_factory()()
                self._thread = threading.Thread(target=self._loop.run_forever, name="antiphon", daemon=True)
                self._thread.start()
            return self._loop


def background() -> Background:
    """That of this process."""
    return _of_process[0]


def _outcome(future: Future[T]) -> T:
    try:
        return future.result()
    except BaseException:
        future.cancel()  # of no effect on work that is over; an interrupted caller takes it back
        raise


def _begin_anew() -> None:
    _of_process[0].abandon()
    _of_process[0] = Background()


def _end() -> None:
    _of_process[0].close()


_of_process = [Background()]
atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
