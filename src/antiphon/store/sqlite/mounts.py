"""On which kind of file system a path lies, as the kernel lists what is mounted."""

from __future__ import annotations

import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")

NETWORK = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "9p", "ceph", "lustre", "gpfs", "ocfs2", "gfs2", "orangefs", "beegfs"),
        *("pvfs2", "coda", "davfs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.davfs2", "fuse.rclone", "fuse.s3fs", "fuse.gcsfuse"),
        *("fuse.goofys", "fuse.curlftpfs", "fuse.juicefs", "fuse.seaweedfs", "fuse.moosefs", "fuse.mfs"),
    )
)
"""Those that several machines can have mounted at once."""


def file_system(path: str, mounts: str | None = None) -> str:
    """The type of the file system of an absolute path without links; empty where the kernel does not say."""
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(errors="surrogateescape")
        except OSError:
            return ""
    found, length = "", -1
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")[0]
        if len(fields) < 5:
            continue
        point = _unescaped(fields[4]).rstrip("/")
        # Of several mounts on one point the last one is seen.
        if (path == point or path.startswith(point + "/")) and len(point) >= length:
            found, length = kind, len(point)
    return found


def _unescaped(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
