"""Datagrams: every wire in as few of them as the link allows, and one for the whole group where multicast reaches it.

**Theory of operation.** A node has one unicast socket. Its address is the node's address, and everything is sent from it, so the source
of a datagram says whose it is. A second socket listens to one multicast group, which comes from configuration alone.

A wire that fits is a datagram (`datagram`). A larger one is cut into numbered parts, which the receiver puts together under bounds and a
time-out (`reassembly`); a part that is lost costs the whole wire, and the protocol above repairs it as it repairs any loss.

A wire for one node goes there. A wire for everybody goes to the multicast group and to the seeds. A wire for several goes out *once*, to
those of them that have said that they hear this node's multicasts, and by unicast to the others (`audience`). So nobody has to guess from
what it hears itself who hears it; nodes that are not meant drop the datagram at its sixth byte; a member behind a router is served
without being configured, and one that moves behind a router is noticed after a few seconds.

Multicast that the system refuses (no route, interface down) is paused with a growing back-off, and everything is sent by unicast
meanwhile (`group`). Nothing of the world's faults is raised: what is lost here is counted in `drops` under its reason.

| file            | noun                                                                      |
|-----------------|---------------------------------------------------------------------------|
| `transport`     | the transport: who gets what by which way                                 |
| `datagram`      | what the bytes mean                                                       |
| `outlet`        | sending without waiting, and the queue behind a full socket               |
| `inlet`         | receiving: many datagrams per wake-up                                     |
| `reassembly`    | wires of which some parts have come                                       |
| `audience`      | who hears whose multicasts                                                |
| `acquaintances` | nodes met so far that a multicast does not reach                          |
| `seeds`         | nodes that are known beforehand, and what their names mean now            |
| `group`         | the multicast group: joined, refused, tried again; not hearing oneself    |
| `interface`     | which network interface, its address and its MTU                          |
| `socket_pair`   | the unicast socket, and the one beside it that takes what comes elsewhere |
| `endpoint`      | an address and a port, in its three spellings                             |

**Who is not trusted.** A datagram's source can be invented, and these headers lie outside of what a sealer seals. Whatever comes is
therefore bounded and counted, and the worst that forged headers do, by who is on the same network and sees its traffic, is to spoil or
divert single wires: the protocol above notices, and repairs them by unicast.
"""

from __future__ import annotations

from antiphon.runtime.transports.udp.transport import UdpTransport

__all__ = ["UdpTransport"]
