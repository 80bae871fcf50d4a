"""Child processes that end with their parent, and why one ended; how a long-running process is set up."""

import ctypes
import gc
import os
import re
import signal
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

_SERIOUS = re.compile(r"^\d+:\w \d.{18,25} # |^\*\*\* |^[\w.]+(Error|Exception|Failed|Unavailable): ")
"""Warnings in Valkey's log, faults in its configuration, and the last line of a traceback."""
_LINE_START = re.compile(r"^\d+:\w \d.{18,25} [.*#-] ")
_ADVICE = re.compile(r"\.? You can: |: make a backup")
"""Names a program that is not installed."""
_HINT = re.compile(r"# WARNING ")

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


def reason_in(log: Path, begin: int, most: int = 64 << 10) -> str:
    """One line of what a process wrote behind `begin` bytes of its log that says why it ended."""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(begin, size - most))
        written = file.read().decode(errors="replace").splitlines()
    lines = [line.strip() for line in written if line.strip()]
    errors = [line for line in lines if line.startswith("error: ")] or [
        line for line in lines if _SERIOUS.search(line) and not _HINT.search(line)
    ]
    line = (errors or lines or ["it said nothing"])[-1].removeprefix("error: ")
    return _LINE_START.sub("", _ADVICE.split(line)[0])


GATE = "STARTED_BY_SUPERVISOR"
"""Environment variable of a child that, once loaded, waits for its parent's word."""
GO = b"go\n"


def wait_for_parent() -> None:
    """Return when the parent that started this process has written GO to its stdin, if it waits for that at all.

    Ends the process where the parent ended instead.
    """
    if os.environ.pop(GATE, "") and sys.stdin.buffer.readline() != GO:
        sys.exit(1)


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


SWITCH_INTERVAL_S = 0.0002
"""A busy thread gives the event loop its turn after this long. With 5 ms (the default) or 1 ms, a thread that applies
the change feed takes most of the time from an event loop that works in steps of 0.1 ms."""
YOUNG_OBJECTS = 50_000
"""Allocations between two collections; a batch of 500 events makes thousands of objects, nearly none in cycles."""


def load_without_collecting() -> None:
    """Collect nothing until `tune_interpreter`: loading makes no garbage, and looking is a seventh of its time."""
    gc.disable()


def tune_interpreter() -> None:
    """Fewer pauses: shorter turns between threads, rarer collections, and what was loaded at start left out of them."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 100)
    gc.enable()


def give_back() -> None:
    """Return what is free to the system. Nothing without glibc."""
    if (libc := _glibc()) is not None:
        libc.malloc_trim(0)


@cache
def _glibc() -> Any:
    libc = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
    return libc if hasattr(libc, "malloc_trim") else None
