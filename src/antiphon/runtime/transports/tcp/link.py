"""One connection that this node made: wires go out on it.

| state      | wires                                             | next                                           |
|------------|---------------------------------------------------|------------------------------------------------|
| CONNECTING | are kept, up to `_WAITING_BYTES`                  | OPEN, or RESTING when nobody answers in time   |
| OPEN       | are written, up to the link's share of the backlog | RESTING when the connection breaks             |
| RESTING    | are dropped (`unreachable`)                       | CONNECTING with the first wire after the pause |
| CLOSED     | are dropped (`closed`)                            |                                                |

The pause doubles from `_PAUSE_S` to `_PAUSE_MAX_S` and begins anew after a connection that held, and when the peer connects to this node
(`end_back_off`): then it is there, and the answer to its first wire must not be dropped. A connection that was lost is reopened once
without waiting for a wire. Each time that a peer which had been connected refuses, `refused` is called: its process is probably gone.

A peer that vanished without a word, or
takes nothing, is noticed after `_SILENCE_S`: over TCP by the kernel (keep-alive, and unacknowledged data), by the short way here. Who
closes a link gives the peer `_FAREWELL_S` to take what is written already.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import ssl
import struct
from collections import Counter
from collections.abc import Callable
from enum import Enum
from typing import cast

from antiphon.model.ids import Address
from antiphon.runtime.transports.contract import host_and_port
from antiphon.runtime.transports.tcp.backlog import Backlog
from antiphon.runtime.transports.tcp.shortcut import connect

_WAITING_BYTES = 8 << 20
_HIGH_BYTES = 256 << 10
"""What may wait before it counts as backlog: no more than the smallest share."""
_DIRECT_BYTES = 4_096
_CONNECT_S = 5.0
_PAUSE_S = 0.05
_PAUSE_MAX_S = 2.0
_SILENCE_S = 15
_FAREWELL_S = 1.0
_TLS_ALERT = b"\x15\x03"
_length = struct.Struct("<I").pack


class TlsWanted(Exception):
    """The peer answers without TLS with an alert: it wants TLS."""


class State(Enum):
    CONNECTING = "wires wait until somebody answers"
    OPEN = "wires are written"
    RESTING = "nobody answers; the next wire after the pause tries again"
    CLOSED = "over"


_OPEN = State.OPEN
"""Looked up once: it takes as long as all else that a small wire needs here."""


class Link(asyncio.Protocol):
    def __init__(
        self,
        to: Address,
        hello: bytes,
        drops: Counter[str],
        backlog: Backlog,
        *,
        source: str,
        context: ssl.SSLContext | None,
        short_way: bool,
        check: Callable[[object], bool],
        fail: Callable[[Exception], None],
        refused: Callable[[Address], None],
    ) -> None:
        """`source` is the host that connections are made from: the one that the hello names. `check` says whether a peer, by its TLS
        object, may be talked to; `fail` is told why a handshake came to nothing. `short_way`: it may be tried, on the own host.
        `refused` is told that a peer to which there was a connection refuses or resets a new one."""
        self.to, self.state = to, State.RESTING
        self.connections = 0
        self.used = 0
        """When something was last sent, as its owner counts."""
        self._hello, self._drops, self._backlog, self._source = hello, drops, backlog, source
        self._context, self._check, self._fail, self._refused = context, check, fail, refused
        self._short_way = short_way and host_and_port(to)[0] == source
        self._short = self._detour = False
        """Whether this connection is by the short way; and whether the last one was, and did not last: then the next is over TCP."""
        self._given = self._taken = 0
        """Bytes that were left to the transport, and how many of them were out when somebody last looked."""
        self._look: asyncio.TimerHandle | None = None
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._transport: asyncio.Transport | None = None
        self._descriptor = -1
        """The connection's socket, for small wires; none with TLS."""
        self._direct = False
        """Whether the link is open, and the transport known to have nothing to write that small wires would overtake."""
        self._behind = False
        """Whether this link is one of those that keep something."""
        self._pause_s, self._again_at, self._opened_at = _PAUSE_S, 0.0, 0.0
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._reopening: asyncio.TimerHandle | None = None
        """Set while a lost connection waits to be reopened."""
        self._reopened = False
        """Whether the last connection was made in this way, and not for a wire: unless it holds, there is not another."""
        self._peer_connected = False
        """Whether the peer connected to this node while the attempt under way was made: if it fails, it is repeated once."""
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._farewell: asyncio.TimerHandle | None = None

    def send(self, framed: bytes) -> None:
        """A wire with its length in front."""
        if len(framed) <= _DIRECT_BYTES and (self._direct or self._can_go_direct()):
            # Small wires go to the kernel at once: uvloop would hand them over when this turn of the loop is over, and receivers can begin
            # before. The descriptor is the link's own, so that it never names another connection.
            try:
                sent = os.write(self._descriptor, framed)
            except OSError:
                sent = 0  # full, or broken: the transport waits, or finds out
            if sent == len(framed):
                return
            framed = framed[sent:]
        if self.state is _OPEN:
            transport = self._transport
            assert transport is not None, "an open link has a connection"
            self._direct = False
            if transport.is_closing():  # broken by an earlier wire of this turn; `connection_lost` comes in the next
                self._drops["unreachable"] += 1
            elif self._behind and transport.get_write_buffer_size() + len(framed) > self._backlog.share:
                self._drops["peer_behind"] += 1
            else:
                self._given += len(framed)
                transport.write(framed)
            return
        if self.state is State.RESTING and self._loop.time() >= self._again_at:
            self._begin_connecting()
        if self.state is State.CONNECTING and self._waiting_bytes + len(framed) <= min(_WAITING_BYTES, self._backlog.share):
            self._waiting.append(framed)
            self._waiting_bytes += len(framed)
        else:
            self._drops["closed" if self.state is State.CLOSED else "unreachable"] += 1

    def end_back_off(self) -> None:
        """Notes that the peer has connected to this node: the next wire, or the attempt under way, need not wait."""
        self._pause_s = _PAUSE_S
        if self.state is State.RESTING:
            self._again_at = 0.0
        elif self.state is State.CONNECTING:
            self._peer_connected = True

    def close(self) -> asyncio.Future[None]:
        """Closes the link; the future is done when nothing is left of it."""
        if self.state is State.CLOSED:
            return self._gone
        self._stop_reopening()
        self.state, self._direct = State.CLOSED, False
        self._drop_waiting("closed")
        if self._transport is not None:
            self._transport.close()
            # A peer that takes nothing would keep the socket, and all that is written to it, for ever.
            self._farewell = self._loop.call_later(_FAREWELL_S, self._transport.abort)
        elif self._task is not None and not self._task.done():
            self._task.add_done_callback(lambda _: self._end())
            self._task.cancel()
        else:
            self._end()
        return self._gone

    def _begin_connecting(self) -> None:
        self._stop_reopening()
        self.state = State.CONNECTING
        self._peer_connected = self._reopened = False
        self._lag(True)
        self._task = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        host, port = host_and_port(self.to)
        name = "" if self._context else None
        try:
            async with asyncio.timeout(_CONNECT_S):
                sock = connect(self.to) if self._short_way and not self._detour else None
                self._short, self._detour = sock is not None, False
                if sock is not None:
                    await self._loop.create_unix_connection(lambda: self, sock=sock)
                    return
                await self._loop.create_connection(
                    lambda: self, host, port, ssl=self._context, server_hostname=name, local_addr=(self._source, 0)
                )
        except (OSError, TimeoutError, ValueError) as error:  # ValueError: a seed's name that is no host name
            if isinstance(error, ssl.SSLError):
                self._fail(error)
            if self._peer_connected and self.state is State.CONNECTING:
                self._begin_connecting()  # what waits is kept: the peer was not listening yet, or not any more, a moment ago
                return
            self._rest()
            if self.connections and isinstance(error, ConnectionRefusedError | ConnectionResetError):
                self._refused(self.to)

    # -- what asyncio tells ----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)
        if self.state is not State.CONNECTING or not self._check(transport.get_extra_info("ssl_object")):
            transport.abort()
            return
        tune(transport.get_extra_info("socket"))
        transport.set_write_buffer_limits(_HIGH_BYTES)
        self._transport, self.state = transport, State.OPEN
        sock = transport.get_extra_info("socket")
        if self._context is None and sock is not None:
            self._descriptor = os.dup(sock.fileno())
        self.connections += 1
        self._opened_at = self._loop.time()
        self._lag(False)
        transport.write(_length(len(self._hello)) + self._hello)
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        for framed in waiting:
            self.send(framed)

    def connection_lost(self, error: Exception | None) -> None:
        was_open, held = self.state is State.OPEN, False
        if was_open:
            held = self._loop.time() - self._opened_at > _PAUSE_MAX_S
            if held:
                self._pause_s = _PAUSE_S
            self._detour = self._short and not held
            self._drops["connection_lost"] += 1
            if isinstance(error, ssl.SSLError):
                self._fail(error)  # in TLS 1.3 a refusal comes after the client has spoken
        self._transport, self._direct = None, False
        self._stop_looking()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if self.state is State.CLOSED:
            self._end()
        else:
            self._rest()
            if was_open and (held or not self._reopened):
                self._reopening = self._loop.call_at(self._again_at, self._reopen)

    def data_received(self, data: bytes) -> None:
        self._direct = False
        self._drops["unexpected_bytes"] += 1  # nobody speaks on a connection that it did not make
        if data.startswith(_TLS_ALERT):
            self._fail(TlsWanted())
        if self._transport is not None:
            self._transport.abort()

    def pause_writing(self) -> None:
        self._lag(True)
        if self._short and self._look is None:
            self._look_later()

    def resume_writing(self) -> None:
        self._lag(False)
        self._stop_looking()

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _can_go_direct(self) -> bool:
        transport = self._transport
        if transport is not None and self.state is _OPEN and self._descriptor >= 0 and not transport.is_closing():
            self._direct = not transport.get_write_buffer_size()
        return self._direct

    def _look_later(self) -> None:
        """TCP gives up a peer that takes nothing for so long; by the short way, this is who does."""
        transport = self._transport
        assert transport is not None, "only a connection is looked after"
        taken = self._given - transport.get_write_buffer_size()
        if self._look is not None and taken == self._taken:
            self._look = None
            transport.abort()
        else:
            self._taken = taken
            self._look = self._loop.call_later(_SILENCE_S, self._look_later)

    def _stop_looking(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def _reopen(self) -> None:
        self._reopening = None
        if self.state is State.RESTING:
            self._begin_connecting()
            self._reopened = True

    def _stop_reopening(self) -> None:
        if self._reopening is not None:
            self._reopening.cancel()
            self._reopening = None

    def _lag(self, behind: bool) -> None:
        if behind is not self._behind:
            self._behind = behind
            self._backlog.links += 1 if behind else -1

    def _rest(self) -> None:
        if self.state is State.CLOSED:
            return
        self.state, self._direct = State.RESTING, False
        self._drop_waiting("unreachable")
        self._again_at = self._loop.time() + self._pause_s * random.uniform(0.75, 1.25)
        self._pause_s = min(2 * self._pause_s, _PAUSE_MAX_S)

    def _drop_waiting(self, reason: str) -> None:
        if self._waiting:
            self._drops[reason] += len(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        if self._transport is None:
            self._lag(False)

    def _end(self) -> None:
        if self._farewell is not None:
            self._farewell.cancel()
        self._lag(False)
        if not self._gone.done():
            self._gone.set_result(None)


def tune(sock: socket.socket | None) -> None:
    """Small wires leave at once, and a peer that is gone without a word is noticed."""
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with contextlib.suppress(OSError):  # the peer is gone already, on systems that say so here
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 5), ("TCP_USER_TIMEOUT", 1_000 * _SILENCE_S)):
            if hasattr(socket, option):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
