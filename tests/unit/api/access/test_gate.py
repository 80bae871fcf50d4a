"""Which pages and names may call: what the gate decides before it asks for a key."""

import re
from pathlib import Path

import pytest

from api.access.gate import Pages, allowed, check_binding
from ingest.errors import InvalidSetting
from ingest.platform.settings import Settings

ON_LOOPBACK = Pages(frozenset({"127.0.0.1", "localhost", "::1"}), ())
ANYWHERE = Pages(None, ())
TRUSTING = Pages(None, (re.compile(r"https://viewer\.example"),))


@pytest.mark.parametrize("host", ["127.0.0.1:3111", "localhost", "[::1]:3111"])
def test_a_server_on_loopback_goes_by_loopback_names(host: str):
    assert allowed(host.encode(), b"", ON_LOOPBACK)


@pytest.mark.parametrize("host", ["rebound.example:3111", "", "[", "127.0.0.1.rebound.example"])
def test_a_server_on_loopback_goes_by_no_other_name(host: str):
    assert not allowed(host.encode(), b"", ON_LOOPBACK)


@pytest.mark.parametrize("pages", [ON_LOOPBACK, ANYWHERE])
def test_its_own_pages_may_call_a_server_and_others_may_not(pages: Pages):
    assert allowed(b"localhost:3111", b"http://localhost:3111", pages)
    assert not allowed(b"localhost:3111", b"http://localhost:3112", pages)
    assert not allowed(b"localhost:3111", b"https://evil.example", pages)
    assert not allowed(b"localhost:3111", b"null", pages)


def test_a_page_that_is_trusted_may_call():
    assert allowed(b"memory.example", b"https://viewer.example", TRUSTING)
    assert not allowed(b"memory.example", b"https://viewer.example.evil", TRUSTING)


def settings(host: str, secret: str | None = None) -> Settings:
    """Settings of a server that listens there."""
    return Settings(redis_url="redis://h:1", data_dir=Path("-"), cache_dir=Path("-"), host=host, secret=secret)


def test_a_server_that_others_can_reach_needs_a_secret_or_a_key():
    with pytest.raises(InvalidSetting, match="mnemolog keys create"):
        check_binding(settings("0.0.0.0"), keys=False)
    check_binding(settings("0.0.0.0"), keys=True)
    check_binding(settings("0.0.0.0", "s3cret"), keys=False)
    check_binding(settings("127.0.0.1"), keys=False)
