"""An asyncio event loop in virtual time: coroutines run at once, and waiting costs nothing.

`time()` is the scheduler's time. While callbacks are ready they run, in the order they became so, and time stands still; when none is,
time jumps to the next thing that is scheduled, be it a timer of a coroutine or a frame on a simulated link: both are in the scheduler's
one queue. No selector, no thread and no real clock takes part, so the same program gives the same run, in every process.

    loop = VirtualLoop()
    loop.run(story(), limit_s=60.0)

`asyncio.sleep`, `timeout`, `wait_for`, `gather`, `TaskGroup`, `Event`, `Queue` and the like work as ever. What would leave virtual time
(threads, sockets, subprocesses, signals) is refused with a UsageError. An error in a callback ends the run, instead of being logged and
forgotten. A run that can never end is not waited for: `Deadlock` when nothing is left that could wake anybody, `OutOfTime` after
`limit_s` virtual seconds, `Stuck` when time does not pass; each names the tasks that wait, and where.

Keeps a timer that was cancelled until its time has come, as an empty handle. Cost: a round of callbacks costs no more than in asyncio's
own loop; a jump to the next instant costs 6 µs.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, NoReturn, TypeVar, TypeVarTuple, Unpack

from antiphon.errors import InvalidOption, UsageError
from antiphon.sim.endless import Deadlock, Endless, OutOfTime, Stuck, described
from antiphon.sim.scheduler import Scheduler

ROUNDS_LIMIT = 1_000_000
"""Rounds of ready callbacks within one instant."""
LIMIT_S = 3_600.0
"""Virtual seconds after which a run is taken for one that never ends, if nothing else is said."""
_CLOSING_S = 120.0
"""Virtual seconds that tasks may take to end when they are cancelled at the end of a run."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class VirtualLoop(asyncio.BaseEventLoop):
    # What the type stubs do not tell of BaseEventLoop.
    _ready: deque[asyncio.Handle]
    _stopping: bool
    _thread_id: int | None

    def __init__(self, scheduler: Scheduler | None = None) -> None:
        super().__init__()
        self._scheduler = scheduler or Scheduler(lambda: None)
        # BaseEventLoop asks its selector once per round, and says how long it may wait: 0 when callbacks are ready.
        self._selector = self
        self._limit = self._scheduler.now + LIMIT_S
        self._rounds = self._made = 0
        self._failure: BaseException | None = None

    def run(self, coroutine: Coroutine[Any, Any, T], *, limit_s: float = LIMIT_S) -> T:
        """Runs a coroutine to its end and returns its result. Tasks that it leaves behind are cancelled, oldest first."""
        if not 0.0 < limit_s < float("inf"):
            coroutine.close()
            raise InvalidOption("limit_s", limit_s, "give a number of virtual seconds above 0")
        if self.is_running() or self._scheduler.running:
            coroutine.close()
            raise UsageError("virtual time is running already: await the coroutine instead")
        self._limit = self.time() + limit_s
        main = self.create_task(coroutine, name="main")
        try:
            return self.run_until_complete(main)
        finally:
            self._end_tasks(main)

    def time(self) -> float:
        """Virtual seconds since the world began."""
        return self._scheduler.now

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._scheduler.at(when, self._ring, timer)
        return timer

    def call_soon_threadsafe(self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None) -> asyncio.Handle:
        if self._thread_id is not None and self._thread_id != threading.get_ident():
            raise _refusal("a call from another thread")
        return self.call_soon(callback, *args, context=context)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[T]:
        self._made += 1
        return _Task(self._made, coro, loop=self, name=str(name or f"task {self._made}"), context=context, **options)

    def create_future(self) -> asyncio.Future[Any]:
        self._made += 1
        return _Future(self._made, loop=self)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """The first error that nobody handles ends the run; further ones are logged, as asyncio does."""
        error = context.get("exception")
        if error is not None and self._failure is None and self.is_running():
            self._failure = error
        else:
            super().default_exception_handler(context)

    # -- one round -------------------------------------------------------------------------------------------------------------

    def select(self, timeout: float | None) -> tuple[()]:
        """Called by `BaseEventLoop` before each round: makes something ready."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        self._rounds += 1
        if self._rounds > ROUNDS_LIMIT:
            raise Stuck(self.time(), self._waiting())
        if timeout is None:
            self._leap()
        return ()

    def _leap(self) -> None:
        """Lets time pass until a callback is ready."""
        scheduler = self._scheduler
        now = when = scheduler.now  # what coroutines did to the world at this instant ends first
        while True:
            scheduler.run_until(when)
            if scheduler.now > now:
                now, self._rounds = scheduler.now, 0
            if self._ready or self._stopping:
                return
            following = scheduler.next_at
            if following is None:
                raise Deadlock(now, self._waiting())
            if following > self._limit:
                raise OutOfTime(self._limit, self._waiting())
            when = following

    def _ring(self, timer: asyncio.TimerHandle, _: Any) -> None:
        if not timer.cancelled():
            self._ready.append(timer)

    def _process_events(self, events: object) -> None:
        """There are none: this loop watches no files."""

    def _write_to_self(self) -> None:
        """Nobody has to be woken: this loop never sleeps."""

    # -- the end ---------------------------------------------------------------------------------------------------------------

    def _end_tasks(self, main: asyncio.Task[Any]) -> None:
        self._failure = None
        self._limit = max(self._limit, self.time() + _CLOSING_S)
        try:
            while tasks := self._tasks():
                for task in tasks:
                    task.cancel("the run is over")
                self.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self.run_until_complete(self.shutdown_asyncgens())
        except Endless:
            # They did not even end when they were cancelled. What ended the run is raised, and named them already.
            for task in self._tasks():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
        if main.done() and not main.cancelled():
            main.exception()  # is raised by `run`, or less telling than what is

    def _tasks(self) -> list[_Task[Any]]:
        """Those that are not done, oldest first."""
        return sorted((task for task in asyncio.all_tasks(self) if isinstance(task, _Task)), key=hash)

    def _waiting(self) -> list[str]:
        return [described(task) for task in self._tasks()]

    def __del__(self, *_: object) -> None:
        """Holds nothing of the machine, so it need not be closed."""


class _Task(asyncio.Task[T]):
    """Hashes by its number: asyncio keeps tasks in sets, and the order of a set must not depend on where memory was free."""

    def __init__(self, number: int, *arguments: Any, **options: Any) -> None:
        self._number = number
        super().__init__(*arguments, **options)

    def __hash__(self) -> int:
        return self._number


class _Future(asyncio.Future[T]):
    """Hashes by its number, as a task does."""

    def __init__(self, number: int, **options: Any) -> None:
        self._number = number
        super().__init__(**options)

    def __hash__(self) -> int:
        return self._number


def _refusal(what: str) -> UsageError:
    return UsageError(f"{what} would leave virtual time, and the run would no longer be the same every time: do it before or after the run")


def _refusing(name: str) -> Callable[..., NoReturn]:
    def refuse(*arguments: object, **options: object) -> NoReturn:
        raise _refusal(name)

    return refuse


for _name in (
    *("run_in_executor", "set_default_executor", "getaddrinfo", "getnameinfo", "add_reader", "add_writer", "add_signal_handler"),
    *("create_connection", "create_server", "create_datagram_endpoint", "create_unix_connection", "create_unix_server", "start_tls"),
    *("connect_accepted_socket", "connect_read_pipe", "connect_write_pipe", "subprocess_exec", "subprocess_shell", "sendfile"),
    *("sock_accept", "sock_connect", "sock_recv", "sock_recv_into", "sock_recvfrom", "sock_recvfrom_into"),
    *("sock_sendall", "sock_sendto", "sock_sendfile"),
):
    setattr(VirtualLoop, _name, _refusing(_name))
