"""JGroups, for the JVM, where its jar is found: SEQUENCER for total order, NAKACK2 alone for fifo. JGroups 5.

Members are Java processes (`JGroupsMember.java`, compiled when it is needed) on the TCP stack that JGroups ships, with discovery by a list
of ports. JGroups batches by itself and bounds what is under way by its credits. The warm-up is longer, for the compiler of the JVM.
The environment variable JGROUPS_JAR names the jar.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import structs

from antiphon.bench.peers.server import free_port
from antiphon.bench.processes import BenchFailed
from antiphon.bench.work import Work

_JAR = "JGROUPS_JAR"
_WARMUP_S = 5.0
_COMPILE_S = 60.0
_STACK = """<config xmlns="urn:org:jgroups">
    <TCP bind_addr="127.0.0.1" bind_port="${{bench.port}}" port_range="0" diag.enabled="false"/>
    <TCPPING initial_hosts="{hosts}" port_range="0"/>
    <MERGE3/>
    <FD_SOCK2/>
    <FD_ALL3/>
    <VERIFY_SUSPECT2/>
    <pbcast.NAKACK2 use_mcast_xmit="false"/>
    <UNICAST3/>
    <pbcast.STABLE max_bytes="4M"/>
    <pbcast.GMS print_local_addr="false"/>
    {order}
    <UFC max_credits="2M" min_threshold="0.4"/>
    <MFC max_credits="2M" min_threshold="0.4"/>
    <FRAG2 frag_size="60K"/>
</config>
"""


def missing() -> str:
    if shutil.which("java") is None or shutil.which("javac") is None:
        return "install a JDK (java and javac), version 11 or newer"
    if not Path(os.environ.get(_JAR, "")).is_file():
        return f"download the jar of JGroups 5 and name it: export {_JAR}=/path/to/jgroups-5.x.jar"
    return ""


@contextmanager
def serve(work: Work) -> Iterator[Work]:
    """There is no server, but a class to compile and a stack to write down."""
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as folder:
        source = Path(__file__).with_name("JGroupsMember.java")
        compile_it = ["javac", "-cp", os.environ[_JAR], "-d", folder, str(source)]
        done = subprocess.run(compile_it, capture_output=True, text=True, timeout=_COMPILE_S, check=False)
        if done.returncode:
            raise BenchFailed(f"{source.name} was not compiled, is {_JAR} the jar of JGroups 5? {done.stderr[-500:]}")
        ports = [free_port() for _ in range(work.members)]
        hosts = ",".join(f"127.0.0.1[{port}]" for port in ports)
        stack = _STACK.format(hosts=hosts, order="<SEQUENCER/>" if work.order == "total" else "")
        (Path(folder) / "stack.xml").write_text(stack, encoding="ascii")
        yield structs.replace(work, warmup_s=max(work.warmup_s, _WARMUP_S), options={"folder": folder, "ports": ports})


def command(work: Work) -> Callable[[int], list[str]]:
    folder: str = work.options["folder"]
    ports: list[int] = work.options["ports"]
    figures = [str(figure) for figure in (work.members, work.size, work.seconds, work.warmup_s)]

    def of(member: int) -> list[str]:
        java = ["java", f"-Dbench.port={ports[member]}", "-Djava.net.preferIPv4Stack=true"]
        return [
            *java,
            "-cp",
            f"{folder}{os.pathsep}{os.environ[_JAR]}",
            "JGroupsMember",
            str(member),
            *figures,
            str(Path(folder) / "stack.xml"),
        ]

    return of
