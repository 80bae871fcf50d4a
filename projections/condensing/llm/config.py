"""The language model that a configuration names.

| setting | value |
|---|---|
| `MNEMOLOG_LLM` | `<base URL>\\|<model>`; empty: no language model |
| `MNEMOLOG_LLM_KEY` | sent as a bearer token; empty: none |
| `MNEMOLOG_LLM_DAILY_TOKENS` | tokens a tenant may spend a UTC day, or `unlimited` |
"""

from typing import NamedTuple
from urllib.parse import urlsplit

from ingest.errors import InvalidSetting
from ingest.platform.clock import Clock, system_clock
from ingest.platform.connections import Client
from projections.condensing.llm.assistant import Assistant
from projections.condensing.llm.budget import DailyBudget
from projections.condensing.llm.client import LlmClient

DEFAULT_DAILY_TOKENS = 1_000_000
"""About 400 long observations, well under a dollar with a small hosted model: nobody is surprised by a bill."""
UNLIMITED = "unlimited"


class Endpoint(NamedTuple):
    """A model of a server."""

    url: str
    model: str


def parse(setting: str) -> Endpoint | None:
    """The endpoint a setting names, None for an empty one; raises InvalidSetting naming MNEMOLOG_LLM.

    The message does not repeat the setting: a password may be in its URL.
    """
    if not setting.strip():
        return None
    url, _, model = (part.strip() for part in setting.partition("|"))
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        raise InvalidSetting("MNEMOLOG_LLM has no valid URL; write <base URL>|<model>") from None
    if not valid or not model:
        raise InvalidSetting("MNEMOLOG_LLM is written <base URL>|<model>, as http://127.0.0.1:11434/v1|llama3.2")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InvalidSetting("MNEMOLOG_LLM takes a base URL only; a key belongs in MNEMOLOG_LLM_KEY")
    return Endpoint(url.rstrip("/"), model)


def parse_daily_tokens(setting: str) -> int | None:
    """Tokens a tenant and day, None for `unlimited`; raises InvalidSetting naming MNEMOLOG_LLM_DAILY_TOKENS."""
    value = setting.strip().lower()
    if not value:
        return DEFAULT_DAILY_TOKENS
    if value == UNLIMITED:
        return None
    if not (value.isascii() and value.isdecimal() and 0 < int(value) < 1 << 53):
        raise InvalidSetting(f"MNEMOLOG_LLM_DAILY_TOKENS={setting!r} is neither a positive number nor {UNLIMITED}")
    return int(value)


def check(setting: str, key: str, daily_tokens: str) -> None:
    """Raise InvalidSetting, naming the variable, for settings that no assistant can be built of; opens nothing."""
    parse(setting)
    parse_daily_tokens(daily_tokens)
    if not (key.isascii() and key.isprintable() and key == key.strip()):
        raise InvalidSetting("MNEMOLOG_LLM_KEY has characters that no header can carry")


def build_assistant(
    setting: str, key: str, daily_tokens: int | None, redis: Client, clock: Clock = system_clock
) -> Assistant | None:
    """The assistant a setting names, None for an empty one; InvalidSetting for one that cannot be.

    `daily_tokens`: None is no limit.
    """
    endpoint = parse(setting)
    if endpoint is None:
        return None
    check(setting, key, "")
    client = LlmClient(endpoint.url, endpoint.model, api_key=key)
    return Assistant(client, DailyBudget(redis, daily_tokens, clock), clock=clock)
