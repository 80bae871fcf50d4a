"""Fixtures that every kind of test may ask for. Factories and helpers are modules of tests/support, on the path."""

import ast
import importlib
import os
import re
import ssl
import sys
import tomllib
from collections.abc import AsyncIterator, Iterator
from functools import cache
from pathlib import Path
from uuid import uuid4

import pytest
from factories import ManualClock
from hypothesis import HealthCheck, settings
from key_leaks import KeyLeaks
from together import Together

from ingest.embedded.valkey import EmbeddedValkey
from ingest.platform.connections import Client, connect

os.environ["MNEMOLOG_PROJECT"] = ""  # commands of tests do not take the project of the checkout that they run in

# The same examples every time: what is drawn anew is looked for by `make fuzz`, not by a run that must land.
settings.register_profile(
    "mnemolog", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("quick", settings.get_profile("mnemolog"), max_examples=10)
settings.load_profile("mnemolog")


@pytest.fixture(scope="session", autouse=True)
def certificates_read_once() -> Iterator[None]:
    """Every client of httpx reads the certificates of all authorities, for 25 ms; here they share what was read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        yield


BOUNDED = re.compile(r"(\w+_)?(AT_ONCE|PAGE|BATCH|READ)|\w+_PER_(APPEND|CALL|COMMAND|COMMIT|PAGE|READ)|MOST(_\w+)?")
"""The names of constants that bound how much is read, sent or held at once."""
PACKAGES = ("ingest", "projections", "workers")


def bounds() -> dict[tuple[str, str], int]:
    """The bounds of the packages, by module and name, without those that bounds.toml excludes."""
    left = set(tomllib.loads((Path(__file__).parent / "support" / "bounds.toml").read_text()))
    found: dict[tuple[str, str], int] = {}
    for path in [path for package in PACKAGES for path in Path(package).rglob("*.py")]:
        module = ".".join(path.with_suffix("").parts)
        targets = [node.targets[0] for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign)]
        names = [node.id for node in targets if isinstance(node, ast.Name) and BOUNDED.fullmatch(node.id)]
        for name in names:
            if left.isdisjoint({module, f"{module}.{name}"}):
                found[module, name] = getattr(importlib.import_module(module), name)
    return {place: value for place, value in found.items() if type(value) is int and value > 2}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--small-bounds", action="store_true", help="set every bound of a page or batch to 2")
    parser.addoption("--data", type=Path, action="append", default=[], help="more data of benchmarks (test_bm25.py)")


@pytest.fixture(scope="session", autouse=True)
def small_bounds(request: pytest.FixtureRequest) -> Iterator[None]:
    """With `--small-bounds`, every bound is 2, wherever it was imported: all code that reads on behind a page runs."""
    with pytest.MonkeyPatch.context() as patch:
        for (_, name), value in bounds().items() if request.config.getoption("--small-bounds") else ():
            for module in [module for module in sys.modules.values() if module.__name__.startswith(PACKAGES)]:
                if vars(module).get(name) == value:
                    patch.setattr(module, name, 2)
        yield


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands at factories.NOW; `clock.advance(...)` moves it."""
    return ManualClock()


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedValkey]:
    """One real Valkey for the whole session."""
    server = EmbeddedValkey(tmp_path_factory.mktemp("valkey"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def key_leaks() -> KeyLeaks:
    """The check that `redis` makes after each test; `key_leaks.allow(pattern)` excuses keys of this one."""
    return KeyLeaks()


@pytest.fixture
async def redis(valkey: EmbeddedValkey, key_leaks: KeyLeaks) -> AsyncIterator[Client]:
    """A client of an empty server. When the test is over, every key must be one that ingest/log/keys.py describes."""
    client = connect(valkey.url)
    await client.flushall()
    yield client
    try:
        await key_leaks.check(client)
    finally:
        await client.aclose()


@pytest.fixture(scope="session")
def together() -> Iterator[Together]:
    """Starts servers that are stopped side by side at the end of the session."""
    opened = Together()
    yield opened
    opened.stop()


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The session's own MNEMOLOG_CACHE_DIR."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def project() -> str:
    """A project that no other test knows."""
    return f"project-{uuid4().hex[:12]}"
