"""Reads and writes of regular files only; writes survive a crash of the machine."""

import os
import stat
import tempfile
import tomllib
from contextlib import suppress
from errno import EACCES, EINVAL
from pathlib import Path
from typing import Any


def docs_page(name: str) -> Path:
    """The path of a page of the documentation: a wheel has them, too."""
    return Path(__file__).parents[2] / "docs" / name


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


def check_regular(path: Path, opened: int | None = None) -> None:
    """Raise OSError if a path, or the file that was opened there, is a device, a FIFO, a socket or a folder: it could
    block, or be replaced by a file."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG((path.stat() if opened is None else os.fstat(opened)).st_mode):
            raise OSError(EINVAL, "not a regular file", str(path))


def read_regular(path: Path) -> bytes:
    """Return the content of a file. Blocks; raises OSError, also if the file is not regular."""
    check_regular(path)  # before opening it, which does something to some devices
    # without waiting for the writer of a FIFO
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
        check_regular(path, file.fileno())  # another one can have replaced it in between
        return file.read()


def toml_beside(module: str, name: str) -> dict[str, Any]:
    """The TOML file of that name in the folder of a module, which is named by its `__file__`."""
    return tomllib.loads(Path(module).with_name(name).read_text("utf-8"))


def write_whole(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file, whole or not at all; only its owner can read it unless `mode` says so. Blocks; raises OSError, also
    if something other than a regular file has the name."""
    check_regular(path)
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
