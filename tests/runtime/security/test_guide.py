"""The guide is held against the code: its commands make keys and certificates that work, its table names every counter."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from antiphon.runtime.security import Certificates, PreSharedKey, sealer

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
FRAME = b"\x93 a frame of the protocol, as long as they usually are at the least"


def run(folder: Path, wanted: str) -> None:
    (commands,) = [block for block in re.findall(r"```sh\n(.*?)```", GUIDE, flags=re.DOTALL) if wanted in block]
    done = subprocess.run(["sh", "-e", "-c", commands], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_the_commands_make_a_key(tmp_path: Path) -> None:
    """A reader's first step would fail."""
    run(tmp_path, "token_urlsafe")
    PreSharedKey.from_file(tmp_path / "nodes.key")
    assert (tmp_path / "nodes.key").stat().st_mode & 0o077 == 0


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl command here")
def test_the_commands_make_certificates_that_nodes_accept(network: Any, tmp_path: Path) -> None:
    """A reader would have made certificates that every node refuses."""
    run(tmp_path, "-x509")
    run(tmp_path, "/CN=ana")
    certificates = Certificates(tmp_path / "ana.pem", tmp_path / "ana.key", tmp_path / "authority.pem")
    certificates.check("ana")
    network.start("ana", certificates)
    network.sealers["ben"] = sealer.Sealer(certificates, address="ben", now=network.now, name="ana")
    network.say("ana", "ben", FRAME)
    assert network.got["ben"] == [(FRAME, "")]


def test_every_counter_is_explained_and_every_explained_counter_is_counted() -> None:
    """An operator would see a number that no page explains, or wait for one that never comes."""
    explained = re.findall(r"^\| `(\w+)` +\|", GUIDE, flags=re.MULTILINE)
    promised = re.findall(r"^\| (\w+) +\|", sealer.__doc__ or "", flags=re.MULTILINE)
    assert explained == [name for name in promised if name != "reason"]
    source = "".join(path.read_text(encoding="utf-8") for path in Path(sealer.__file__).parent.glob("*.py"))
    counted = {*re.findall(r'BadFrame\("(\w+)"\)', source), *re.findall(r'drops\["(\w+)"\]', source)}
    counted |= set(re.findall(r'return "(\w+)"', source)) | set(re.findall(r'else "(\w+)"$', source, flags=re.MULTILINE))
    counted |= set(re.findall(r'return "(\w+)" if', source))
    assert set(explained) == counted
