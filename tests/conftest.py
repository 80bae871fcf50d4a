"""Fixtures that every kind of test may ask for. Factories and helpers are modules of tests/support, on the path."""

import ssl
from collections.abc import AsyncIterator, Iterator
from functools import cache

import pytest
from factories import ManualClock
from hypothesis import HealthCheck, settings
from key_leaks import KeyLeaks

from ingest.embedded.valkey import EmbeddedValkey
from ingest.platform.connections import Client, connect

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
