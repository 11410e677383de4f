"""A mesh of TCP connections: one each way between two nodes that talk, made when the first wire is to be sent.

A connection begins with a hello that names the node and the address where it is reached; then come wires, each with its length in front.
A node writes only to connections that it made (`link`) and reads only from those that were made to it (`door`), so that two that
connect at once need not agree on one of them. A connection that breaks is made anew with a growing pause; what is sent meanwhile is
dropped and counted, and the core repairs it. Between nodes of one machine a connection is mostly not TCP but the `shortcut`.
"""

from antiphon.runtime.transports.tcp.transport import TcpTransport

__all__ = ["TcpTransport"]
