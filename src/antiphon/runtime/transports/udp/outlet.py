"""Sending without waiting, and the queue behind a full socket.

A datagram leaves at once. When the kernel's buffer is full it and those after it wait, in order, at most `QUEUE_BYTES`; above that they
are dropped and counted. What the system refuses for good (no route, not permitted, an answer that nobody listens there) is counted under
the error's name and told to the caller.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import Counter, deque
from collections.abc import Callable

QUEUE_BYTES = 4 << 20
_FULL_RETRY_S = 0.002
"""Where a full network queue, not a full socket, refuses: nobody says when it is better."""

Where = tuple[str, int]


class Outlet:
    def __init__(self, sock: socket.socket, drops: Counter[str], on_refused: Callable[[Where], None]) -> None:
        self._socket, self._drops, self._on_refused = sock, drops, on_refused
        self._sendto = sock.sendto
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[bytes, Where]] = deque()
        self._retry: asyncio.TimerHandle | None = None
        self.waiting_bytes = self.sent_datagrams = self.sent_bytes = 0

    def put(self, datagram: bytes, to: Where) -> bool:
        """Sends, or keeps for later; False if the system refuses to send there at all."""
        if self._waiting:
            self._keep(datagram, to)
            return True
        try:
            self._sendto(datagram, to)
        except OSError as error:
            if not _is_full(error):
                self._count(error)
                return False
            self._keep(datagram, to)
            self._wait(error)
            return True
        self.sent_datagrams += 1
        self.sent_bytes += len(datagram)
        return True

    def close(self) -> None:
        """Gives what is waiting one last chance."""
        if self._waiting:
            self._flush()
        self._rest()
        self._drops["closed"] += len(self._waiting)
        self._waiting.clear()
        self.waiting_bytes = 0

    def _keep(self, datagram: bytes, to: Where) -> None:
        if self.waiting_bytes + len(datagram) > QUEUE_BYTES:
            self._drops["send_queue_full"] += 1
            return
        self._waiting.append((datagram, to))
        self.waiting_bytes += len(datagram)

    def _flush(self) -> None:
        self._rest()
        waiting = self._waiting
        while waiting:
            datagram, to = waiting[0]
            try:
                self._sendto(datagram, to)
            except OSError as error:
                if _is_full(error):
                    self._wait(error)
                    return
                self._count(error)
                self._on_refused(to)
            else:
                self.sent_datagrams += 1
                self.sent_bytes += len(datagram)
            waiting.popleft()
            self.waiting_bytes -= len(datagram)

    def _wait(self, error: OSError) -> None:
        if error.errno == errno.ENOBUFS:
            self._retry = self._loop.call_later(_FULL_RETRY_S, self._flush)
        else:
            self._loop.add_writer(self._socket.fileno(), self._flush)

    def _rest(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._loop.remove_writer(self._socket.fileno())

    def _count(self, error: OSError) -> None:
        self._drops[f"send_{errno.errorcode.get(error.errno or 0, 'failed').lower()}"] += 1


def _is_full(error: OSError) -> bool:
    return error.errno in (errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS)
