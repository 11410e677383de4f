"""A node's metrics as Prometheus reads them: the text format 0.0.4, and an HTTP endpoint that serves it and nothing else.

`GET /metrics` answers with everything in the catalogue (`metrics.py`); any other path is 404, any other method 405. Each connection
carries one request. A request has `_REQUEST_BYTES` and `_REQUEST_S` to come in, and there are at most `_CONNECTIONS` at a time: whoever
needs more is answered and sent away, so that nobody can fill the node's memory through this door. It is open to this machine alone unless
it is bound to another address on purpose: metrics tell names of nodes and groups.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from antiphon.errors import AntiphonError, InvalidOption
from antiphon.model.ids import Address
from antiphon.runtime.metrics import CATALOGUE, Metric, Sample, samples
from antiphon.runtime.transports.contract import address_of, host_and_port

_REQUEST_BYTES = 8_192
_REQUEST_S = 5.0
_CONNECTIONS = 16
_LINGER_S, _LINGER_READS = 1.0, 16
_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_PLAIN = "text/plain; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}
_SAYINGS = {
    400: "this is not HTTP/1.1",
    404: "there is only /metrics",
    405: "there is only GET and HEAD",
    408: "the request did not come in time",
    431: f"a request has at most {_REQUEST_BYTES:,} bytes",
    503: "there are too many connections, or the node is closed",
}


class MetricsEndpoint:
    def __init__(self, bind: str | int, stats: Callable[[], Mapping[str, Any]], node: str) -> None:
        """`bind` is host:port, or a port of this machine's own address; port 0 is any free one."""
        text = str(bind)
        self._host, self._port = host_and_port(f"127.0.0.1:{text.removeprefix(':')}" if text.lstrip(":").isdecimal() else text, "metrics")
        self._stats, self._node = stats, node
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def address(self) -> Address | None:
        """Where it listens, once it is open."""
        if self._server is None or not self._server.sockets:
            return None
        host, port = self._server.sockets[0].getsockname()[:2]
        return address_of(host, port)

    async def open(self) -> None:
        """Raises InvalidOption when the address cannot be bound."""
        try:
            self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=_REQUEST_BYTES)
        except OSError as error:
            where = address_of(self._host, self._port)
            raise InvalidOption(
                "metrics", where, f"it cannot be bound ({error.strerror or error}): choose another port, or 0 for any free one"
            ) from None

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        crowded = len(self._writers) >= _CONNECTIONS
        self._writers.add(writer)
        try:
            async with asyncio.timeout(_REQUEST_S):
                status, body, is_head = (503, "", False) if crowded else await self._answer(reader)
                writer.write(_response(status, body, is_head))
                await writer.drain()
                if status != 200:
                    await _hear_out(reader, writer)
        except (OSError, TimeoutError):
            pass  # the client has gone, or does not take the answer
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[int, str, bool]:
        try:
            async with asyncio.timeout(_REQUEST_S / 2):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return 431, "", False
        except asyncio.IncompleteReadError:
            return 400, "", False
        except TimeoutError:
            return 408, "", False
        method, _, rest = head.split(b"\r\n", 1)[0].decode("latin-1").partition(" ")
        target, _, version = rest.partition(" ")
        if not version.startswith("HTTP/1."):
            return 400, "", False
        if method not in ("GET", "HEAD"):
            return 405, "", False
        if target.partition("?")[0] != "/metrics":
            return 404, "", method == "HEAD"
        try:
            return 200, text(self._node, self._stats()), method == "HEAD"
        except AntiphonError:
            return 503, "", method == "HEAD"


async def _hear_out(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads what is left of a refused request, for a moment: a connection that is closed before is reset, and the answer lost."""
    writer.write_eof()
    async with asyncio.timeout(_LINGER_S):
        for _ in range(_LINGER_READS):
            if not await reader.read(_REQUEST_BYTES):
                return


def text(node: str, stats: Mapping[str, Any]) -> str:
    """What `node.stats()` says, in Prometheus's text format. Each metric comes once, with all its samples."""
    by_metric: dict[Metric, list[Sample]] = {}
    for sample in samples(node, stats):
        by_metric.setdefault(sample.metric, []).append(sample)
    lines: list[str] = []
    for metric in CATALOGUE:
        if found := by_metric.get(metric):
            name = metric.prometheus
            lines += (f"# HELP {name} {metric.help}.", f"# TYPE {name} {metric.kind}")
            lines += (f"{name}{{{_labels(sample.labels)}}} {_number(sample.value)}" for sample in found)
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{label}="{value.translate(_ESCAPES)}"' for label, value in labels.items())


def _number(value: float) -> str:
    return str(int(value)) if isinstance(value, int) else repr(value)


def _response(status: int, body: str, is_head: bool) -> bytes:
    content = (body or f"{_SAYINGS[status]}\n").encode()
    lines = [
        f"HTTP/1.1 {status} {_REASONS[status]}",
        f"Content-Type: {_TEXT if status == 200 else _PLAIN}",
        f"Content-Length: {len(content)}",
        "Connection: close",
    ]
    if status == 405:
        lines.append("Allow: GET, HEAD")
    return "\r\n".join([*lines, "", ""]).encode() + (b"" if is_head else content)
