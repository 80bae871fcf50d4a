"""What the variables of the imitated systems' servers mean to ours."""

from pathlib import Path

import pytest

from ingest.errors import InvalidSetting
from ingest.platform.addresses import client_key
from ingest.platform.settings import (
    IGNORED,
    OTHER_NAMES,
    from_environment,
    to_environment,
    warnings,
    without_other_names,
)

SUMMARIZATION_ENABLED = "SUMMARIZATION_ENABLED"
HOME = {"HOME": "/nowhere"}
PAGE = Path(__file__).parents[4] / "docs/dropin.md"


def test_the_secret_and_the_port_of_agentmemory_are_those_of_the_server():
    settings = from_environment({**HOME, "AGENTMEMORY_SECRET": "hush", "III_REST_PORT": "4111"})
    assert (settings.secret, settings.port, settings.url) == ("hush", 4111, "http://127.0.0.1:4111")
    assert settings.spool is not None
    assert settings.spool.name == "4111"


def test_the_variables_of_agentd_and_memex_are_obeyed():
    settings = from_environment(
        {
            **HOME,
            "AGENTD_PORT": "7008",
            "AGENTD_LOG_FORMAT": "json",
            "SUMMARIZATION_THRESHOLD": "7",
            "SUMMARIZATION_BATCH_SIZE": "3",
            "SUMMARIZATION_INTERVAL_SECONDS": "9",
        }
    )
    assert (settings.agentd_ports, settings.log_format) == ((7008,), "json")
    assert (settings.condense_threshold, settings.condense_batch, settings.condense_every) == (7, 3, 9)


@pytest.mark.parametrize("off", ["false", "False", "0", "off", "no"])
def test_a_switched_off_summarizer_condenses_nothing(off: str):
    environ = {**HOME, SUMMARIZATION_ENABLED: off, "SUMMARIZATION_THRESHOLD": "7"}
    assert from_environment(environ).condense_threshold == 0
    assert from_environment({**environ, SUMMARIZATION_ENABLED: "true"}).condense_threshold == 7


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_an_empty_value_of_another_system_means_unset(name: str):
    assert from_environment({**HOME, name: ""}) == from_environment(HOME)


def test_our_own_variable_wins_and_a_contradiction_stops_the_start():
    environ = {**HOME, "MNEMOLOG_SECRET": "ours", "AGENTMEMORY_SECRET": "theirs"}
    assert from_environment(environ).secret == "ours"
    with pytest.raises(InvalidSetting, match="AGENTMEMORY_SECRET and MNEMOLOG_SECRET are both set") as raised:
        list(warnings(environ, ()))
    assert "theirs" not in str(raised.value)
    assert list(warnings({**environ, "AGENTMEMORY_SECRET": "ours"}, ())) == []


def test_a_bad_value_is_named_with_the_variable_that_holds_it():
    with pytest.raises(InvalidSetting, match="III_REST_PORT='many' is not a whole number"):
        from_environment({**HOME, "III_REST_PORT": "many"})


def test_ignored_variables_are_named_where_their_system_is_served():
    environ = {**HOME, "GEMINI_API_KEY": "key", "DATABASE_URL": "x", "DB_MAX_POOL_SIZE": "3", "BM25_WEIGHT": ""}
    (told,) = warnings(environ, ())
    assert told.startswith("GEMINI_API_KEY of agentmemory: no effect here")
    assert "=key" not in told
    assert len(list(warnings(environ, ("memex",)))) == 2


def test_a_child_process_gets_each_setting_under_one_name():
    environ = {**HOME, SUMMARIZATION_ENABLED: "no", "SUMMARIZATION_THRESHOLD": "7", "AGENTMEMORY_SECRET": "hush"}
    settings = from_environment(environ)
    child = {**without_other_names(environ), **to_environment(settings)}
    assert from_environment(child) == settings
    assert list(warnings(child, ("memex",))) == []


def test_commands_send_the_servers_secret_to_this_machine_alone():
    environ = {**HOME, "AGENTMEMORY_SECRET": "hush"}
    assert client_key("http://127.0.0.1:3111", environ) == "hush"
    assert client_key("http://memory.example", environ) is None


def test_the_page_lists_every_variable():
    names = {*OTHER_NAMES, *" ".join(IGNORED.values()).split()}
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []
