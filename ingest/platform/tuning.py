"""How the interpreter of a long-running process is set up."""

import gc
import sys

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
