"""For how long a node of a cluster is waited for, by what is under way."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_patience_s: ContextVar[float | None] = ContextVar("patience_s", default=None)


@contextmanager
def waiting_at_most(seconds: float | None) -> Generator[None]:
    """Within, a node is waited for no longer; None for as long as the client waits."""
    token = _patience_s.set(seconds)
    try:
        yield
    finally:
        _patience_s.reset(token)


def node_timeout_s() -> float | None:
    """For how long a node is waited for; None for as long as the client waits."""
    return _patience_s.get()
