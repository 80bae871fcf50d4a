"""Keeps reports of hooks that the log does not take just now: in the spool folder, where it fetches them later.

No hook reads an answer, so a refusal would lose the event. The file's name and content make the event's id, so what
the log took without saying so in time is stored once all the same.
"""

import os
import time
from itertools import count
from pathlib import Path

from ingest.platform.files import sync

MAX_FILES = 10_000

_numbers = count()


def new_name() -> str:
    """A name for a file, as the hooks name theirs; no other has it."""
    return f"{time.time_ns() // 1_000_000}-{os.getpid()}-{next(_numbers)}.json"


def keep(folder: Path, name: str, body: bytes) -> bool:
    """Leave a body of POST /api/queue in the folder, on disk when this returns; false when MAX_FILES are there.

    Blocks on files. Raises OSError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if len(os.listdir(folder)) >= MAX_FILES:  # noqa: PTH208 - names are enough
        return False
    unfinished = folder / f".{name}"
    with unfinished.open("xb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(folder / name)
    sync(folder)
    return True
