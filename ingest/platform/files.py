"""File writes that survive a crash of the machine."""

import os
import tempfile
from errno import EACCES
from pathlib import Path


def sync(path: Path) -> None:
    """Return when a file's bytes, or the names that a folder lists, are on disk. Blocks; raises OSError."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def private_folder() -> Path:
    """A temporary folder of this user alone, made if it is not there. Raises PermissionError when it is another's."""
    folder = Path(tempfile.gettempdir()) / f"mnemolog-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != os.getuid():  # in a folder open to all, another user may have made it, or a link
        raise PermissionError(EACCES, "belongs to another user: remove it, or set TMPDIR", str(folder))
    return folder


def write_whole(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file, whole or not at all; only its owner can read it unless `mode` says so. Blocks; raises OSError."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)  # before it has its name: no other user can read it in between
        Path(name).replace(path)
    except BaseException:  # also KeyboardInterrupt: no half of a file stays
        Path(name).unlink(missing_ok=True)
        raise
