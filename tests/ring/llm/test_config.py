from typing import cast

import pytest

from ingest.errors import InvalidSetting
from ingest.platform.connections import Client
from projections.condensing.llm.assistant import (
    DEFAULT_DAILY_TOKENS,
    ModelEndpoint,
    build,
    parse_daily_tokens,
    parse_endpoint,
)

NO_REDIS = cast(Client, None)


def test_a_setting_is_a_base_url_and_a_model():
    assert parse_endpoint("http://127.0.0.1:11434/v1/|llama3.2:3b") == ModelEndpoint(
        "http://127.0.0.1:11434/v1", "llama3.2:3b"
    )
    assert parse_endpoint(" https://llm.example | org/model|q4 ") == ModelEndpoint(
        "https://llm.example", "org/model|q4"
    )


@pytest.mark.parametrize("setting", ["", "  "])
def test_no_setting_is_no_model(setting: str):
    assert parse_endpoint(setting) is None
    assert build(setting, "", None, NO_REDIS) is None


@pytest.mark.parametrize(
    "setting",
    [
        "gpt-4o",
        "http://127.0.0.1/v1",
        "http://127.0.0.1/v1|",
        "|model",
        "http://|model",
        "ftp://host/v1|model",
        "http://host:port/v1|model",
        "http://host:0x/v1|model",
        "http://[::1/v1|model",
        "https://me:s3cret@host/v1|model",
        "https://host/v1?api-key=s3cret|model",
        "https://host/v1#s3cret|model",
    ],
)
def test_a_bad_setting_is_named_and_not_repeated(setting: str):
    with pytest.raises(InvalidSetting, match="MNEMOLOG_LLM") as raised:
        parse_endpoint(setting)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("key", ["s3cret\n", "s3crét", " s3cret", "s3\x00cret"])
def test_a_key_that_no_header_can_carry_is_named_and_not_repeated(key: str):
    with pytest.raises(InvalidSetting, match="MNEMOLOG_LLM_KEY") as raised:
        build("http://host/v1|model", key, None, NO_REDIS)
    assert "s3" not in str(raised.value)


def test_no_limit_of_tokens_is_said_in_so_many_words():
    assert parse_daily_tokens("") == DEFAULT_DAILY_TOKENS
    assert parse_daily_tokens("50000") == 50_000
    assert parse_daily_tokens("Unlimited") is None


@pytest.mark.parametrize("setting", ["0", "-1", "1e6", "many", "1_000", "9" * 30])
def test_any_other_number_of_tokens_is_named(setting: str):
    with pytest.raises(InvalidSetting, match="MNEMOLOG_LLM_DAILY_TOKENS"):
        parse_daily_tokens(setting)


async def test_an_assistant_knows_its_model():
    assistant = build("http://host/v1|model", "key", None, NO_REDIS)
    assert assistant is not None
    assert assistant.model == "model"
    await assistant.aclose()
