"""What kind of file system a path is on, as far as Linux tells."""

from __future__ import annotations

import os
import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_SHARED = frozenset(
    {
        *("nfs", "nfs3", "nfs4", "cifs", "smb2", "smb3", "smbfs", "afs", "ncpfs", "9p", "virtiofs"),
        *("lustre", "gpfs", "beegfs", "ceph", "glusterfs", "pvfs2", "orangefs", "ocfs2", "gfs2"),
        *("fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.cephfs", "fuse.s3fs", "fuse.gcsfuse"),
        *("fuse.rclone", "fuse.juicefs", "fuse.davfs", "fuse.mount-s3", "fuse.blobfuse2", "wekafs"),
    }
)
"""Types of file systems whose files several hosts may have open, without memory in common."""


def shared_file_system(path: Path) -> str | None:
    """Return the type of the file system when several hosts may share it; None when not known."""
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None  # not Linux
    found = _type_of(Path(os.path.realpath(path)), mounts)
    return found if found in _SHARED else None


def _type_of(path: Path, mounts: str) -> str | None:
    """Return the type of the mount that holds a path: the deepest one, of these the last."""
    best: tuple[int, str] | None = None
    for line in mounts.splitlines():
        left, dash, right = line.partition(" - ")
        fields = left.split(" ")
        if not dash or len(fields) < 5:
            continue
        point = Path(_unescaped(fields[4]))
        if path.is_relative_to(point) and (best is None or len(point.parts) >= best[0]):
            best = len(point.parts), right.split(" ")[0]
    return None if best is None else best[1]


def _unescaped(text: str) -> str:
    """Return a path as it is: the kernel writes spaces and the like as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
