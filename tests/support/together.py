"""Servers that tests share, and that are stopped side by side."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, TypeVar

T = TypeVar("T")


class Together:
    """Contexts of servers that are stopped side by side."""

    def __init__(self) -> None:
        self._opened: list[AbstractContextManager[Any]] = []

    def __call__(self, context: AbstractContextManager[T]) -> T:
        """What the context yields; it ends with the others."""
        entered = context.__enter__()
        self._opened.append(context)
        return entered

    def stop(self) -> None:
        """End all of them."""
        with ThreadPoolExecutor() as threads:
            for ended in [threads.submit(one.__exit__, None, None, None) for one in self._opened]:
                ended.result()
