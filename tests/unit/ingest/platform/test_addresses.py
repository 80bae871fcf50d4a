"""Addresses of web servers, the proxy and the stored key to reach them with."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest

import mnemolog_client.proxies
from api.agents import recording
from api.cli.client import ApiClient
from api.importing.source import RestServer
from ingest.errors import InvalidSetting
from ingest.platform import addresses as proxies
from ingest.platform.addresses import client_key, fault_of_url, store_key
from projections.condensing.llm.client import LlmClient
from projections.embedding.openai_compatible import OpenAICompatibleEmbedder


@pytest.mark.parametrize(
    "url",
    [
        "https://issuer.example", "https://h:8443/realms/x/", "http://127.0.0.1:9000", "http://[::1]",
        "http://localhost/x",
    ],
)  # fmt: skip
def test_https_and_this_machine_can_be_used(url: str):
    assert fault_of_url(url) == ""


@pytest.mark.parametrize(
    "url",
    [
        "issuer.example", "ftp://h/x", "https://", "https://h:0", "https://h:x", "https://[", "https://h/a b",
        "https://h/\n",
    ],
)  # fmt: skip
def test_what_is_no_address_is_told(url: str):
    assert "is not an http:// or https:// address" in fault_of_url(url)


@pytest.mark.parametrize("url", ["https://me:s3cret@h", "https://h/#x", "https://h/?x=1"])
def test_users_fragments_and_queries_are_refused_and_not_repeated(url: str):
    fault = fault_of_url(url)
    assert "not allowed" in fault
    assert "s3cret" not in fault


def test_a_query_can_be_allowed():
    assert fault_of_url("https://h/keys?policy=x", query=True) == ""
    assert fault_of_url("https://h/keys?x#y", query=True)


def test_plain_http_to_another_machine_is_refused_where_it_has_to_be_secure():
    assert "must be an https:// address" in fault_of_url("http://issuer.example")
    assert fault_of_url("http://memory.example", secure=False) == ""


URL = "http://127.0.0.1:3111"
KEY = "mnk_0123456789AB_secret"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path)}


def both(url: str, environ: dict[str, str]) -> set[str]:
    """What commands and what hooks send."""
    return {client_key(url, environ) or "", recording.key_of(url, environ)}


@pytest.mark.parametrize("folder", ["", "elsewhere"])
def test_a_stored_key_is_sent_by_commands_and_hooks(
    environ: dict[str, str], folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))  # hooks ask the system for it
    environ |= {"XDG_CONFIG_HOME": str(tmp_path / folder)} if folder else {}
    assert both(URL, environ) == {""}
    path = store_key(KEY, URL, environ)
    assert path.is_relative_to(tmp_path / (folder or ".config"))
    assert both(URL, environ) == {KEY}
    assert both("http://localhost:3111/", environ) == {KEY}


def test_a_stored_key_is_for_its_owner_alone(environ: dict[str, str]):
    old = os.umask(0)
    try:
        path = store_key(KEY, URL, environ)
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_stored_key_that_others_can_read_is_not_sent(
    environ: dict[str, str], mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):  # fmt: skip
    monkeypatch.setenv("HOME", str(tmp_path))
    store_key(KEY, URL, environ).chmod(mode)
    with pytest.raises(InvalidSetting, match="chmod 600"):
        client_key(URL, environ)
    assert recording.key_of(URL, environ) == ""
    assert "chmod 600" in capfd.readouterr().err


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:3112", "http://127.0.0.1", "http://127.0.0.2:3111", "http://[::1]:3111",
        "http://127.0.0.1.evil.example:3111", "http://127.0.0.1:3111@evil.example:3111",
        "http://evil.example:3111/127.0.0.1_3111", "http://..:3111", "not a url", "http://[", "",
    ],
)  # fmt: skip
def test_a_stored_key_is_sent_to_no_other_server(
    environ: dict[str, str], url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    store_key(KEY, URL, environ)
    assert both(url, environ) == {""}


def test_a_key_in_the_environment_counts_before_the_stored_one(environ: dict[str, str]):
    store_key(KEY, URL, environ)
    assert both(URL, {**environ, "MNEMOLOG_SECRET": "s3cret"}) == {"s3cret"}
    assert both(URL, {**environ, "MNEMOLOG_SECRET": "s3cret", "MNEMOLOG_KEY": "mnk_new"}) == {"mnk_new"}


def test_another_key_takes_the_place_of_the_stored_one(environ: dict[str, str]):
    store_key(KEY, URL, environ)
    path = store_key("mnk_another", URL, environ)
    assert client_key(URL, environ) == "mnk_another"
    assert list(path.parent.iterdir()) == [path]


def test_a_place_that_cannot_be_written_is_named(environ: dict[str, str], tmp_path: Path):
    (tmp_path / ".config").write_text("a file")
    with pytest.raises(InvalidSetting, match="cannot be written"):
        store_key(KEY, URL, environ)
    assert client_key(URL, environ) is None


@pytest.mark.parametrize("url", [URL, "http://localhost:4000", "http://[::1]:3111", "http://10.0.0.7/memory/"])
def test_hooks_and_commands_agree_on_the_file(
    environ: dict[str, str], url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    store_key(KEY, url, environ)
    assert recording.key_of(url, environ) == KEY


@pytest.mark.parametrize("url", ["", "127.0.0.1:3111", "ftp://127.0.0.1:3111", "http://", "http://[", "http://h:port"])
def test_no_key_is_stored_for_what_is_no_address(environ: dict[str, str], url: str, tmp_path: Path):
    with pytest.raises(InvalidSetting, match="is not an http"):
        store_key(KEY, url, environ)
    assert list(tmp_path.iterdir()) == []


ELSEWHERE = "https://models.example/v1"
RULES = pytest.mark.parametrize("options", [proxies.proxy_options, mnemolog_client.proxies.proxy_options])
"""The server's rule, and the Python client's copy of it."""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@RULES
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.0.2", "[::1]", "api.localhost"])
def test_a_server_on_this_machine_is_reached_without_a_proxy(
    options: Callable[[str], dict[str, Any]], host: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ALL_PROXY", "http://proxy.example:8080")
    assert options(f"http://{host}:3111") == {"trust_env": False}


@RULES
def test_another_server_is_reached_as_httpx_reads_the_environment(
    options: Callable[[str], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
):
    assert options(ELSEWHERE) == {"trust_env": True}
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:8080")
    assert options(ELSEWHERE) == {"trust_env": True}


@RULES
def test_a_proxy_that_httpx_cannot_use_gives_way_to_the_next(
    options: Callable[[str], dict[str, Any]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("ALL_PROXY", "socks5://user:hush@proxy.example:1080")
    with caplog.at_level(logging.WARNING):
        assert options(ELSEWHERE)["proxy"] is None
    assert "ALL_PROXY is ignored" in caplog.text
    assert "hush" not in caplog.text
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:8080")
    assert options(ELSEWHERE)["proxy"] == "http://proxy.example:8080"
    monkeypatch.setenv("NO_PROXY", "models.example")
    assert options(ELSEWHERE)["proxy"] is None


@pytest.mark.parametrize("value", ["socks5://127.0.0.1:1080", "socks4://127.0.0.1:1080", "socks5h://127.0.0.1:1080"])
@pytest.mark.parametrize("url", ["http://127.0.0.1:3111", "https://models.example"])
async def test_every_client_can_be_constructed_while_a_socks_proxy_is_named(
    value: str, url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ALL_PROXY", value)
    with ApiClient(url), RestServer(url), mnemolog_client.Mnemolog(url):
        pass
    async with httpx2.AsyncClient(**proxies.proxy_options(url)), mnemolog_client.AsyncMnemolog(url):
        pass
    OpenAICompatibleEmbedder(url, "model", 3)
    LlmClient(url, "model")


def test_a_proxy_of_the_environment_is_what_a_client_uses(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1080")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # nothing listens there
    options = proxies.proxy_options("http://models.example")
    with httpx.Client(**options) as client, pytest.raises(httpx.ConnectError, match="refused"):
        client.get("http://models.example/")
