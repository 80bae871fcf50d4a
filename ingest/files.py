"""Files that a crash of the machine leaves as they were acknowledged."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Return when a file's bytes, or the names that a folder lists, are on disk. Blocks; raises OSError."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
