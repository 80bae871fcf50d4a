"""Keys as texts, and who may call a server: hosts and origins that are known, and the binding that asks for a key."""

from pathlib import Path

import pytest

from api.access.binding import check_binding
from api.access.keys import KeyToken, mint, parse
from api.http.gate import Allowed, is_known, may_call
from ingest.errors import InvalidSetting
from ingest.platform.addresses import LOOPBACK
from ingest.platform.settings import Settings


def test_a_new_token_is_read_back_as_what_it_is():
    token = mint()
    assert parse(str(token)) == token
    assert len(str(token)) == len("mnk_") + 12 + 1 + 43 + 6


def test_every_token_is_another_and_its_digest_says_nothing_of_its_id():
    tokens = [mint() for _ in range(50)]
    assert len({token.id for token in tokens}) == len({token.secret for token in tokens}) == 50
    assert KeyToken("a" * 12, tokens[0].secret).digest == tokens[0].digest
    assert len(tokens[0].digest) == 64


@pytest.mark.parametrize("place", [4, 10, 20, 45, -1])
def test_one_wrong_character_is_recognised(place: int):
    text = str(mint())
    other = "b" if text[place] != "b" else "c"
    assert parse(text[:place] + other + text[place:][1:]) is None


@pytest.mark.parametrize("text", ["", "mnk_", "Bearer", "mnk_a_b", "x" * 66, "mnk_" + "é" * 12 + "_" + "a" * 49])
def test_text_that_is_not_a_token_is_rejected(text: str):
    assert parse(text) is None


def test_the_representation_of_a_token_has_no_secret():
    token = mint()
    assert token.secret not in repr(token)


ALLOWED = Allowed(LOOPBACK, frozenset({"https://viewer.example"}))


@pytest.mark.parametrize("host", ["127.0.0.1:3111", "localhost", "[::1]:3111"])
def test_loopback_names_are_known(host: str):
    assert is_known(host.encode(), ALLOWED)


@pytest.mark.parametrize("host", ["rebound.example:3111", "", "[", "127.0.0.1.rebound.example"])
def test_other_host_names_are_unknown(host: str):
    assert not is_known(host.encode(), ALLOWED)


@pytest.mark.parametrize(
    ("origin", "site", "expected"),
    [
        (b"", b"", True),
        (b"", b"none", True),
        (b"", b"same-origin", True),
        (b"", b"same-site", False),
        (b"", b"cross-site", False),
        (b"http://memory.example:3111", b"", True),
        (b"https://memory.example:3111", b"", True),
        (b"chrome-extension://memory.example:3111", b"", False),
        (b"http://memory.example:3112", b"", False),
        (b"http://memory.example", b"", False),
        (b"https://viewer.example", b"cross-site", True),
        (b"https://viewer.example.evil", b"", False),
        (b"http://viewer.example", b"", False),
        (b"null", b"", False),
    ],
)
def test_only_programs_own_pages_and_allowed_origins_can_call(origin: bytes, site: bytes, expected: bool):
    assert may_call(b"memory.example:3111", origin, site, ALLOWED) is expected


def settings(host: str, secret: str | None = None) -> Settings:
    """Settings of a server that listens there."""
    return Settings(redis_url="redis://h:1", data_dir=Path("-"), cache_dir=Path("-"), host=host, secret=secret)


def test_a_server_that_others_can_reach_needs_a_secret_or_a_key():
    with pytest.raises(InvalidSetting, match="mnemolog admin keys create"):
        check_binding(settings("0.0.0.0"), keys=False)
    check_binding(settings("0.0.0.0"), keys=True)
    check_binding(settings("0.0.0.0", "s3cret"), keys=False)
    check_binding(settings("127.0.0.1"), keys=False)
