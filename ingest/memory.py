"""The memory of a long-running process: what is free goes back to the system, where the C library can be told so."""

import ctypes
import sys
from functools import cache
from typing import Any

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
MAPPED_BYTES = 1 << 20
"""A bigger block has a mapping of its own, and goes back as soon as it is freed. Without a fixed limit the C library
raises it to 32 MiB after the first big body, and keeps everything smaller."""
ARENAS = 2


def keep_little() -> None:
    """Have the C library keep little of what is freed; before threads are started. Nothing without glibc."""
    if (libc := _glibc()) is not None:
        libc.mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)
        libc.mallopt(_M_ARENA_MAX, ARENAS)


def give_back() -> None:
    """Return what is free to the system. Nothing without glibc."""
    if (libc := _glibc()) is not None:
        libc.malloc_trim(0)


@cache
def _glibc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "malloc_trim") and hasattr(libc, "mallopt") else None
