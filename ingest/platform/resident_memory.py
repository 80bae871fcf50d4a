"""The memory of a long-running process: what is free goes back to the system, where the C library can be told so."""

import ctypes
import sys
from functools import cache
from typing import Any


def give_back() -> None:
    """Return what is free to the system. Nothing without glibc."""
    if (libc := _glibc()) is not None:
        libc.malloc_trim(0)


@cache
def _glibc() -> Any:
    libc = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
    return libc if hasattr(libc, "malloc_trim") else None
