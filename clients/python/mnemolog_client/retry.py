"""How often, and after what pauses, something is tried again."""

import random
from collections.abc import Callable
from typing import NamedTuple


class Retry(NamedTuple):
    """How often a request is repeated that may succeed later, and for how long its client waits between.

    Pauses double from `first_pause_s` to `longest_pause_s`, each shortened at random by up to half, so that clients
    which failed together do not come back together. A server that names a time is obeyed, unless that is longer than
    what is left of `patience_s`: the error comes at once then.
    """

    attempts: int = 6
    patience_s: float = 20.0
    first_pause_s: float = 0.1
    longest_pause_s: float = 5.0

    def pause_s(self, failures: int, spread: Callable[[float, float], float] = random.uniform) -> float:
        """How long to wait after so many failures."""
        longest = min(self.longest_pause_s, self.first_pause_s * 2.0 ** min(failures - 1, 30))
        return spread(longest / 2, longest)


class Attempts:
    """The attempts at one request, each of which has failed: how long to wait after it, while there is patience."""

    def __init__(self, retry: Retry, spread: Callable[[float, float], float] = random.uniform) -> None:
        self._retry, self._spread = retry, spread
        self._failures, self._waited_s = 0, 0.0

    def pause_s(self, error: Exception, retry_after_s: float | None = None) -> float:
        """How long to wait after this failure: the server's time, if it names one. Raises the last failure."""
        self._failures += 1
        pause_s = self._retry.pause_s(self._failures, self._spread) if retry_after_s is None else retry_after_s
        if self._failures >= self._retry.attempts or self._waited_s + pause_s > self._retry.patience_s:
            raise error
        self._waited_s += pause_s
        return pause_s


RETRY = Retry()
ONCE = Retry(attempts=1)
