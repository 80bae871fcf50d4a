"""Folders that one process works in and leaves behind when it is killed."""

import os
import shutil
import socket
from pathlib import Path


def work_folder(parent: Path) -> Path:
    """A folder below `parent` for this process alone (not made yet); removes those of dead processes of this host.

    The host is part of the name: containers that share a volume have the same process ids.
    """
    host = socket.gethostname()
    for path in parent.glob(f"{host}-*"):
        pid = path.name.removeprefix(f"{host}-")
        if pid.isdigit() and not _alive(int(pid)):
            shutil.rmtree(path, ignore_errors=True)
    return parent / f"{host}-{os.getpid()}"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
