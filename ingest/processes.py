"""Child processes that end with their parent."""

import ctypes
import os
import signal
from collections.abc import Callable
from pathlib import Path

_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of Linux's prctl."""


def prepare_child(niceness: int = 0) -> Callable[[], None]:
    """What a child does before it becomes its program, for `subprocess.Popen(preexec_fn=...)`.

    It takes its priority and, on Linux, asks for SIGTERM when the thread that started it ends: a supervisor that is
    killed leaves no process behind that would stand in the way of the next one.
    """
    libc = ctypes.CDLL(None) if Path("/proc/self").exists() else None

    def prepare() -> None:
        if niceness:
            os.nice(niceness)
        if libc is not None:
            libc.prctl(_PARENT_DEATH_SIGNAL, signal.SIGTERM)

    return prepare
