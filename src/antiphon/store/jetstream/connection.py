"""One connection to the servers: questions with answers, in bounded time, whatever becomes of the servers meanwhile.

nats-py reconnects in the background, for as long as the store is open. A question that is under way when the connection breaks fails at
once and is asked again when there is a connection, until the time of the call (`timeout_s` of the address) is over: then StoreUnreachable.
Whoever asks for something that must not happen twice uses `request`, which asks once, and looks before it asks again.

Keeps one future per question under way. A question costs about 60 µs here and as much in the server.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Struct

from antiphon.errors import BadStore, StoreUnreachable
from antiphon.store.jetstream import client as nats_client
from antiphon.store.jetstream.address import JetStreamAddress
from antiphon.store.jetstream.ballast import Ballast
from antiphon.store.jetstream.faults import NO_JETSTREAM, Refusal, Unanswered, raise_fault

if TYPE_CHECKING:
    from nats.aio.client import Client

_ATTEMPT_S = 3.0
_ASKED_AGAIN_S = 1.0
"""How long a question waits for its answer: one that must not be asked twice without looking, and one that may."""
_PAUSE_S = (0.02, 0.5)
_GIVING_UP_S = 1.0
_NO_SERVER = "no server is there: start it, or one for development with antiphon store serve"
_LEAST_VERSION = (2, 12)
_NOBODY = b"NATS/1.0 503"


class Fault(Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class Answer(Protocol):
    error: Fault | None


class Nothing(Struct):
    error: Fault | None = None


T = TypeVar("T", bound=Answer)
Result = TypeVar("Result")


class Arrival(NamedTuple):
    data: bytes
    headers: bytes


class Connection:
    def __init__(self, address: JetStreamAddress) -> None:
        self.address, self.url = address, address.url
        self._client: Client | None = None
        self._connected = asyncio.Event()
        self._waiting: dict[str, asyncio.Future[Arrival]] = {}
        self._others: set[asyncio.Future[Any]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._inbox = ""
        self._asked = 0
        self.closed = False
        self.ballast: Ballast | None = None
        self._trouble = "it was never reached"

    # --- life ------------------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        client = nats_client.client(self.url)
        address, login = self.address, self.address.credentials
        try:
            async with asyncio.timeout(address.timeout_s):
                await client.connect(
                    servers=list(address.servers),
                    user=login.user or None,
                    password=login.password or None,
                    error_cb=self._heard_error,
                    disconnected_cb=self._lost,
                    reconnected_cb=self._found,
                    connect_timeout=max(1, round(min(_ATTEMPT_S, address.timeout_s))),
                    reconnect_time_wait=0.1,  # type: ignore[arg-type]  # it is a time; nats-py only says int
                    max_reconnect_attempts=1,
                    ping_interval=5,
                    max_outstanding_pings=2,
                )
        except (OSError, _nats_error()) as error:  # a TimeoutError is an OSError
            with suppress(Exception):
                await client.close()
            why = _NO_SERVER if "no servers available" in f"{error}" else f"{error or self._trouble}"
            if "authorization" in why.lower() or "authorization" in self._trouble.lower():
                raise BadStore(self.url, "the server does not accept this user and password") from None
            raise StoreUnreachable(self.url, self._trouble if isinstance(error, TimeoutError) else why) from None
        self._client = client
        try:
            # While it was opening, a server that is not there should be known soon; from now on its absence is borne.
            client.options["max_reconnect_attempts"] = -1
            version = client.connected_server_version
            if (version.major, version.minor) < _LEAST_VERSION:
                least = ".".join(map(str, _LEAST_VERSION))
                raise BadStore(self.url, f"the server is NATS {version.major}.{version.minor}; atomic batches need {least} or newer")
            self._inbox = client.new_inbox()
            await nats_client.listen(client, f"{self._inbox}.*", self._arrived)
            self._connected.set()
            await self._check_jetstream()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        self.closed = True
        for future in (*self._waiting.values(), *self._others):
            if not future.done():
                future.set_exception(self._unreachable("it is closed"))
        for task in list(self._tasks):
            task.cancel()
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):
                async with asyncio.timeout(_ATTEMPT_S):
                    await client.close()

    @property
    def client(self) -> Client:
        if self._client is None or self.closed:
            raise self._unreachable("it is not open")
        return self._client

    @property
    def payload_bytes(self) -> int:
        """The largest message, with its headers."""
        return self.client.max_payload

    async def _check_jetstream(self) -> None:
        begun, pause_s = self.now(), _PAUSE_S[0]
        while True:
            try:
                answer = await self.request("$JS.API.INFO", b"", timeout_s=_ASKED_AGAIN_S)
                break
            except Unanswered as unanswered:
                # A server that is just starting may not have it yet.
                if unanswered.why == _NOBODY_THERE and self.now() > begun + _ASKED_AGAIN_S:
                    raise BadStore(self.url, "JetStream is not enabled: start the server with it (nats-server --jetstream)") from None
                pause_s = await self.pause(pause_s, begun + self.address.timeout_s, unanswered.why)
        error = msgspec.json.decode(answer.data, type=Nothing).error
        if error is not None and error.err_code in NO_JETSTREAM:
            raise BadStore(self.url, f"{error.description}: enable it in the server's configuration")

    # --- questions -------------------------------------------------------------------------------------------------------------

    async def ask(self, what: str, body: object, kind: type[T], *, deadline: float | None = None) -> T:
        """Asks the JetStream API something that may be asked twice, until it is answered or the time is over."""
        payload = msgspec.json.encode(body) if body is not None else b""
        deadline = self.deadline() if deadline is None else deadline
        pause_s = _PAUSE_S[0]
        while True:
            try:
                arrival = await self.request(f"$JS.API.{what}", payload, timeout_s=min(_ASKED_AGAIN_S, deadline - self.now()))
                return self.decoded(arrival, kind)
            except Unanswered as unanswered:
                pause_s = await self.pause(pause_s, deadline, unanswered.why)

    async def request(self, subject: str, data: bytes, headers: str = "", *, before: bytes = b"", timeout_s: float = _ATTEMPT_S) -> Arrival:
        """Asks once, `headers` being lines, and `before` messages that go before. Raises Unanswered when no answer came in time, or
        nobody was there to give one."""
        timeout_s = min(timeout_s, _ATTEMPT_S)
        await self.until_connected(timeout_s)
        self._asked += 1
        reply = f"{self._inbox}.{self._asked}"
        future: asyncio.Future[Arrival] = asyncio.get_running_loop().create_future()
        self._waiting[reply] = future
        try:
            async with asyncio.timeout(timeout_s):
                await self.send(before + nats_client.frame(subject, reply, headers, data))
                arrival = await future
        except TimeoutError:
            raise Unanswered("no answer in time") from None
        finally:
            del self._waiting[reply]
        if arrival.headers.startswith(_NOBODY):
            raise Unanswered(_NOBODY_THERE)
        return arrival

    async def send(self, frames: bytes) -> None:
        """Sends messages and waits for nothing. Nothing is kept for when there is a connection again: who asked has given up by then."""
        client = self.client
        if not client.is_connected:
            raise Unanswered(self._trouble)
        try:
            await nats_client.send(client, frames)
        except _nats_error() as error:
            raise Unanswered(f"{error}") from None

    async def wait(self, future: asyncio.Future[Any], timeout_s: float) -> bool:
        """Waits for a future that a listener fills; False after the time. Ends with Unanswered when the connection breaks."""
        self._others.add(future)
        try:
            done, _ = await asyncio.wait((future,), timeout=max(0.0, timeout_s))
            if done:
                future.result()
            return bool(done)
        finally:
            self._others.discard(future)

    async def whole(self, call: Coroutine[Any, Any, Result]) -> Result:
        """Awaits the call; whoever gives it up gives up when it is done, or after a moment: it then is known to be done or not done."""
        task = self.later(call)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait((task,), timeout=_GIVING_UP_S)
            raise

    def later(self, call: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Does something in the background, until it is done or the connection is closed; its errors concern nobody."""
        task = asyncio.create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()

    def decoded(self, arrival: Arrival, kind: type[T]) -> T:
        try:
            answer = msgspec.json.decode(arrival.data, type=kind)
        except msgspec.MsgspecError as error:
            raise Refusal(0, f"an answer that makes no sense: {error}") from None
        if answer.error is not None:
            raise_fault(answer.error.err_code, answer.error.description, self.url)
        return answer

    # --- time ------------------------------------------------------------------------------------------------------------------

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def deadline(self) -> float:
        return self.now() + self.address.timeout_s

    async def pause(self, pause_s: float, deadline: float, why: str) -> float:
        """Waits a little before something is tried again; StoreUnreachable when there is no time left. Returns the next, longer pause."""
        if self.closed:
            raise self._unreachable("it is closed")
        if self.now() + pause_s >= deadline:
            raise self._unreachable(why)
        await asyncio.sleep(pause_s * random.uniform(0.5, 1.5))
        return min(pause_s * 2, _PAUSE_S[1])

    async def until_connected(self, timeout_s: float = _ATTEMPT_S) -> None:
        if self._connected.is_set():
            return
        _ = self.client
        try:
            async with asyncio.timeout(max(0.0, timeout_s)):
                await self._connected.wait()
        except TimeoutError:
            raise Unanswered(self._trouble) from None

    def _unreachable(self, why: str) -> StoreUnreachable:
        return StoreUnreachable(self.url, why)

    # --- what nats-py tells ----------------------------------------------------------------------------------------------------

    def _arrived(self, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        future = self._waiting.get(subject.decode())
        if future is not None and not future.done():
            future.set_result(Arrival(data, headers))

    async def _heard_error(self, error: Exception) -> None:
        self._trouble = f"{error}" or type(error).__name__

    async def _lost(self) -> None:
        self._connected.clear()
        if not self.closed:
            for future in (*self._waiting.values(), *self._others):
                if not future.done():
                    future.set_exception(Unanswered("the connection broke"))

    async def _found(self) -> None:
        self._connected.set()


_NOBODY_THERE = "nobody answers there now"


def _nats_error() -> type[Exception]:
    """What nats-py raises when something is wrong with the connection."""
    from nats.errors import Error

    return Error
