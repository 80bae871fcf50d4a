"""Which proxy a client of ours uses, and that its construction survives what the environment names."""

import logging
from collections.abc import Callable
from typing import Any

import httpx
import httpx2
import pytest

import mnemolog_client.proxies
from api.cli.client import ApiClient
from api.importing.source import RestServer
from ingest.platform import addresses as proxies
from projections.condensing.llm.client import LlmClient
from projections.embedding.openai_compatible import OpenAICompatibleEmbedder

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
