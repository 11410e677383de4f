"""A network of several hosts on this machine, made of network namespaces, for tests that need cables, switches and routers.

    with Network(3) as network:                  # three hosts on a switch; Network(2, 1): two subnets with a router between
        node = network.start(0, [sys.executable, "-c", program, network.address(1)])
        network.cut(1)                           # host 1 falls silent
        network.heal()

Everything, the switch too, is in namespaces with names of their own, so nothing of it is seen outside and several tests can run at once.
Needs root and `ip`; `Network.unavailable()` says why not. On leaving, whatever was started is killed and the namespaces are removed.

Host i of subnet s is 10.77.s.(i+1) on `eth0`; with `cables=2` each host is also on a second, separate network, as 10.78.s.(i+1) on `eth1`.
The switches flood multicasts; the router passes none on.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

_COMMAND_S = 30.0


class Network:
    def __init__(self, *sizes: int, cables: int = 1, mtu: int = 1_500) -> None:
        """`sizes` are the numbers of hosts in each subnet."""
        self._name = f"antiphon-{secrets.token_hex(4)}"
        self._cables, self._mtu = cables, mtu
        self._subnets = [subnet for subnet, size in enumerate(sizes) for _ in range(size)]
        self._processes: list[subprocess.Popen[str]] = []
        self._split_switches: set[str] = set()

    @staticmethod
    @functools.cache
    def unavailable() -> str:
        """Why there can be no such network here; empty if there can."""
        if shutil.which("ip") is None:
            return "needs the command `ip` (package iproute2)"
        if os.geteuid() != 0:
            return "needs root, to make network namespaces"
        try:
            with Network(2):
                return ""
        except subprocess.CalledProcessError as error:
            return f"this machine makes no network namespaces: {error.stderr.strip()}"

    @property
    def hosts(self) -> range:
        return range(len(self._subnets))

    def address(self, host: int, cable: int = 0) -> str:
        subnet = self._subnets[host]
        return f"10.{77 + cable}.{subnet}.{self._subnets[:host].count(subnet) + 1}"

    def __enter__(self) -> Network:
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=_COMMAND_S)
        for namespace in (self._switches, *map(self._namespace, self.hosts)):
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, timeout=_COMMAND_S, check=False)

    # -- what runs in it ---------------------------------------------------------------------------------------------------------

    def argv(self, host: int, argv: Sequence[str]) -> list[str]:
        """The command that runs a command on a host."""
        return ["ip", "netns", "exec", self._namespace(host), *argv]

    def run(self, host: int, argv: Sequence[str], timeout: float = _COMMAND_S) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.argv(host, argv), capture_output=True, text=True, timeout=timeout, check=True)

    def start(self, host: int, argv: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        """Starts a process, by default with pipes for its input and output; its errors are seen in the test's."""
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        process = subprocess.Popen(self.argv(host, argv), **(pipes | options))
        self._processes.append(process)
        return process

    def sent_datagrams(self, host: int) -> int:
        """UDP datagrams that the host has sent since it was made, by the kernel's count."""
        lines = self.run(host, ["cat", "/proc/net/snmp"]).stdout.splitlines()
        names, counts = (line.split() for line in lines if line.startswith("Udp:"))
        return int(counts[names.index("OutDatagrams")])

    # -- what happens to it ------------------------------------------------------------------------------------------------------

    def cut(self, host: int, cable: int = 0) -> None:
        """The host stays connected to a switch that passes nothing on: it notices nothing, and hears nothing."""
        self._ip(self._switches, f"link set {self._port(host, cable)} nomaster")

    def split(self, *sides: Sequence[int]) -> None:
        """Only hosts of the same side hear each other. For hosts of one subnet; those that are not named keep the first switch."""
        for side, hosts in enumerate(sides):
            name = f"split{side}"
            if side and name not in self._split_switches:
                self._split_switches.add(name)
                self._add_switch(name)
            for host in hosts:
                self._ip(self._switches, f"link set {self._port(host, 0)} master {name if side else self._switch(host, 0)}")

    def heal(self, *hosts: int) -> None:
        """Undoes `cut` and `split`, for these hosts or for all."""
        for host in hosts or self.hosts:
            for cable in range(self._cables):
                self._ip(self._switches, f"link set {self._port(host, cable)} master {self._switch(host, cable)}")

    def take_down(self, host: int, cable: int = 0) -> None:
        """The host's own interface goes down: it notices."""
        self._ip(self._namespace(host), f"link set eth{cable} down")

    def bring_up(self, host: int, cable: int = 0) -> None:
        self._ip(self._namespace(host), f"link set eth{cable} up", *self._route(host, cable))

    def replace(self, host: int, cable: int = 0) -> None:
        """The host's interface is taken out and another put in, with the same name and address."""
        self._ip(self._namespace(host), f"link del eth{cable}")
        self._connect(host, cable)

    # -- how it is made ----------------------------------------------------------------------------------------------------------

    @property
    def _switches(self) -> str:
        """The namespace of the switches and the router."""
        return f"{self._name}-s"

    def _namespace(self, host: int) -> str:
        return f"{self._name}-{host}"

    def _switch(self, host: int, cable: int) -> str:
        return f"switch{self._subnets[host]}-{cable}"

    def _port(self, host: int, cable: int) -> str:
        return f"port{host}-{cable}"

    def _route(self, host: int, cable: int) -> list[str]:
        return [f"route add default via 10.77.{self._subnets[host]}.254"] if cable == 0 else []

    def _build(self) -> None:
        self._ip(None, f"netns add {self._switches}", *(f"netns add {self._namespace(host)}" for host in self.hosts))
        self._ip(self._switches, "link set lo up")
        for cable in range(self._cables):
            for subnet in sorted(set(self._subnets)):
                name = f"switch{subnet}-{cable}"
                self._add_switch(name)
                self._ip(self._switches, f"addr add 10.{77 + cable}.{subnet}.254/24 dev {name}")
        forward = ["ip", "netns", "exec", self._switches, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]
        subprocess.run(forward, capture_output=True, text=True, timeout=_COMMAND_S, check=True)
        for host in self.hosts:
            self._ip(self._namespace(host), "link set lo up")
            for cable in range(self._cables):
                self._connect(host, cable)

    def _connect(self, host: int, cable: int) -> None:
        namespace, port = self._namespace(host), self._port(host, cable)
        peer = f"name eth{cable} mtu {self._mtu} netns {namespace}"
        self._ip(self._switches, f"link add {port} mtu {self._mtu} type veth peer {peer}")
        self._ip(self._switches, f"link set {port} master {self._switch(host, cable)} up")
        self._ip(namespace, f"addr add {self.address(host, cable)}/24 dev eth{cable}", f"link set eth{cable} up", *self._route(host, cable))

    def _add_switch(self, name: str) -> None:
        self._ip(self._switches, f"link add {name} type bridge mcast_snooping 0 forward_delay 0", f"link set {name} up")

    @staticmethod
    def _ip(namespace: str | None, *commands: str) -> None:
        """Carries out `ip` commands in a namespace."""
        argv = ["ip", *(["-n", namespace] if namespace else []), "-batch", "-"]
        subprocess.run(argv, input="\n".join(commands), capture_output=True, text=True, timeout=_COMMAND_S, check=True)
