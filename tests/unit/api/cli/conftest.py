"""A server that answers as a test wants it to, where every command finds it."""

from collections.abc import Generator

import pytest

from tests.support.fake_api import FakeServer, listening


@pytest.fixture
def fake_api(monkeypatch: pytest.MonkeyPatch) -> Generator[FakeServer]:
    fake = FakeServer()
    with listening(fake) as url:
        fake.url = url
        monkeypatch.setenv("MNEMOLOG_URL", url)
        monkeypatch.delenv("MNEMOLOG_SECRET", raising=False)
        yield fake
