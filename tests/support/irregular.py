"""Things in the place of a file: a FIFO, a socket, a folder, a device (the null device, by another name)."""

import os
import stat
from pathlib import Path

import pytest

KINDS = {"FIFO": stat.S_IFIFO, "socket": stat.S_IFSOCK, "device": stat.S_IFCHR, "folder": 0}


def put(kind: str, path: Path) -> Path:
    """Put one at a path, or skip the test if this user cannot; returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.mknod(path, KINDS[kind] | 0o600, os.makedev(1, 3)) if KINDS[kind] else path.mkdir()
    except PermissionError:
        pytest.skip(f"this user cannot make a {kind}")
    return path
