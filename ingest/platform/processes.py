"""Child processes that end with their parent, and why one ended; how a long-running process is set up; its release."""

import ctypes
import gc
import os
import platform
import re
import signal
import sys
import threading
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

_SERIOUS = re.compile(r"^\d+:\w \d.{18,25} # |^\*\*\* |^[\w.]+(Error|Exception|Failed|Unavailable): ")
"""Warnings in Valkey's log, errors in its configuration, and the last line of a traceback."""
_LINE_START = re.compile(r"^\d+:\w \d.{18,25} [.*#-] ")
_ADVICE = re.compile(r"\.? You can: |: make a backup")
"""The message for a program that is not installed."""
_HINT = re.compile(r"# WARNING ")

_READ_BYTES = 64 << 10
"""Of the end of a log."""
_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of Linux's prctl."""


def prepare_child(niceness: int = 0, at_the_end: signal.Signals = signal.SIGTERM) -> Callable[[], None]:
    """The `preexec_fn` of a child: it sets its niceness, and on Linux asks for a signal when its parent thread ends."""
    libc = ctypes.CDLL(None) if Path("/proc/self").exists() else None

    def prepare() -> None:
        if niceness:
            os.nice(niceness)
        if libc is not None:  # a supervisor that is killed leaves no process behind that would block the next one
            libc.prctl(_PARENT_DEATH_SIGNAL, at_the_end)

    return prepare


def reason_in(log: Path, begin: int) -> str:
    """One line of what a process wrote behind `begin` bytes of its log that says why it ended."""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(begin, size - _READ_BYTES))
        written = file.read().decode(errors="replace").splitlines()
    lines = [line.strip() for line in written if line.strip()]
    errors = [line for line in lines if line.startswith("error: ")] or [
        line for line in lines if _SERIOUS.search(line) and not _HINT.search(line)
    ]
    candidates = errors or lines or ["it printed nothing"]
    # the last but one says why where a server can't load its files, and the last that it gave up
    reasons = candidates[-2:] if errors and not errors[-1].startswith("error: ") else candidates[-1:]
    return "; ".join(_LINE_START.sub("", _ADVICE.split(line.removeprefix("error: "))[0]) for line in reasons)


GATE = "STARTED_BY_SUPERVISOR"
"""Environment variable of a child that, once loaded, waits for its parent's signal to start."""
GO = b"go\n"


def wait_for_parent() -> None:
    """Return when the parent has written GO to stdin, at once without GATE; ends the process if the parent ended."""
    if os.environ.pop(GATE, "") and sys.stdin.buffer.readline() != GO:
        sys.exit(1)


def on_stop(handle: Any) -> None:
    """Have both signals that stop a process handled so, as `signal.signal` takes it."""
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, handle)


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


SWITCH_INTERVAL_S = 0.0002
"""A busy thread yields to the event loop after this time. With 5 ms (the default) or 1 ms, a thread that applies the
change feed takes most of the time from an event loop that works in steps of 0.1 ms."""
YOUNG_OBJECTS = 50_000
"""Allocations between two garbage collections; a batch of 500 events creates thousands of objects, almost none in
cycles."""
LOWEST_NICENESS = 19
SLICE_NS = 100_000
"""Linux's least."""
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
"""Numbers of the system call, which libc has no function for."""


class _SchedulingAttributes(ctypes.Structure):
    """Linux's `struct sched_attr`, in its first version."""

    _fields_ = (
        ("size", ctypes.c_uint32), ("policy", ctypes.c_uint32), ("flags", ctypes.c_uint64), ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32), ("runtime", ctypes.c_uint64), ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )  # fmt: skip


def give_way() -> None:
    """From now on this thread gets spare processor time only, in short turns."""
    # Linux (6.12 and later) lets a thread finish its turn of some milliseconds before one that just woke up, whatever
    # their niceness, and a request wakes up several threads. The idle class would give way at once, but gets next to
    # nothing on a busy machine: a thread of it that held the interpreter's lock stopped a worker for seconds
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_NICENESS)
    if (call := _SCHED_SETATTR.get(platform.machine())) is not None and sys.platform == "linux":
        attributes = _SchedulingAttributes(nice=LOWEST_NICENESS, runtime=SLICE_NS)
        attributes.size = ctypes.sizeof(attributes)
        # an older kernel refuses or ignores it; the niceness stays
        ctypes.CDLL(None).syscall(call, 0, ctypes.byref(attributes), 0)


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
    libc = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
    if hasattr(libc, "malloc_trim"):
        cast(Any, libc).malloc_trim(0)


@cache
def release() -> str:
    """The installed release; empty when run from a source tree."""
    try:
        return version("mnemolog")
    except PackageNotFoundError:
        return ""
