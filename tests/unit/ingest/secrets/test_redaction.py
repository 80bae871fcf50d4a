"""Secrets out of logs."""

import json
import logging
import sys
from contextvars import copy_context
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from ingest.platform import tracing
from ingest.platform.settings import Settings
from ingest.secrets.redaction import HIDDEN, JsonFormatter, RedactingFormatter, formatter_of, redacted, secrets_of
from tests.support.otlp_receiver import context_of, traced

KEY = "mnk_0123456789AB_" + "s" * 49


@pytest.mark.parametrize(
    "line",
    [
        f"refused {KEY}",
        f"Authorization: Bearer {KEY}",
        "{'authorization': 'bearer hunter2hunter2'}",
        "GET /stream?token=hunter2hunter2&x=1",
        "GET /x?api_key=hunter2hunter2",
        "cannot connect to redis://user:hunter2hunter2@host:6379/0",
    ],
)
def test_what_looks_like_a_secret_is_hidden(line: str):
    told = redacted(line)
    assert HIDDEN in told
    assert "hunter2" not in told
    assert "sss" not in told


def test_a_key_keeps_its_id_so_that_its_owner_can_be_found():
    assert redacted(f"refused {KEY}") == f"refused mnk_0123456789AB_{HIDDEN}"


def test_an_ordinary_line_stays_as_it_is():
    line = "2026-01-31 INFO workers.runner: partition 3 at 17-0, key=value, http://localhost:3111/v1/live?limit=1"
    assert redacted(line) == line


def test_the_secrets_of_the_settings_are_hidden_whatever_they_look_like():
    settings = Settings(
        redis_url="redis://:of-redis@h:1",
        data_dir=Path("-"),
        cache_dir=Path("-"),
        secret="of the server",
        llm_key="abc",
    )
    secrets = secrets_of(settings)
    assert set(secrets) == {"of the server", "of-redis"}  # three letters are no secret
    assert redacted("it is: of the server", secrets) == f"it is: {HIDDEN}"


def test_a_traceback_is_redacted_too():
    formatter = RedactingFormatter("%(message)s", ["of the server"])
    try:
        raise ValueError("of the server")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "f", 1, "failed with %s", ("of the server",), sys.exc_info())
    told = formatter.format(record)
    assert "Traceback" in told
    assert "of the server" not in told


def test_a_line_holds_no_secret_that_a_write_may_not_hold():
    token = "ghp_" + "aZ9" * 12
    record = logging.LogRecord("api", logging.ERROR, __file__, 1, "rejected: %s", (f"use {token}",), None)
    assert RedactingFormatter("%(message)s").format(record) == "rejected: use [REDACTED_SECRET]"


def json_line(message: str, *args: object, error: bool = False) -> dict[str, str]:
    """A record as JSON logs have it."""
    record = logging.LogRecord("api.app", logging.ERROR, "f", 1, message, args, sys.exc_info() if error else None)
    return json.loads(JsonFormatter("", ["of the server"]).format(record))


def test_a_json_line_names_time_level_logger_and_message():
    told = json_line("partition %d: %s", 3, 'she said "no"\n')
    assert datetime.fromisoformat(told.pop("time")).utcoffset() == timedelta(0)
    assert told == {"level": "ERROR", "logger": "api.app", "message": 'partition 3: she said "no"\n'}


def test_a_json_line_holds_no_secret_in_message_or_traceback():
    try:
        raise ValueError("of the server")
    except ValueError:
        told = json_line("use %s and of the server", "ghp_" + "aZ9" * 12, error=True)
    assert told["message"] == f"use [REDACTED_SECRET] and {HIDDEN}"
    assert told["exception"].splitlines()[0] == "Traceback (most recent call last):"
    assert told["exception"].splitlines()[-1] == f"ValueError: {HIDDEN}"


def test_a_json_line_names_the_request_that_it_was_logged_in():
    def logged_in_a_request(name: str) -> str:
        tracing.request_id.set(name)
        return json_line("up")["request_id"]

    assert copy_context().run(logged_in_a_request, "r-1") == "r-1"
    assert copy_context().run(logged_in_a_request, "mnk_0123456789ab_secret") == f"mnk_0123456789ab_{HIDDEN}"
    assert "request_id" not in json_line("up")


def test_the_settings_say_how_a_line_is_written():
    settings = Settings(data_dir=Path("-"), cache_dir=Path("-"))
    record = logging.LogRecord("api.app", logging.INFO, "f", 1, "up", (), None)
    assert formatter_of(settings).format(record).endswith(" INFO api.app: up")
    assert json.loads(formatter_of(replace(settings, log_format="json")).format(record))["message"] == "up"


def test_a_json_line_names_the_trace_that_it_was_logged_in(monkeypatch: pytest.MonkeyPatch):
    with traced(monkeypatch), tracing.server("GET", {}, [(b"traceparent", context_of(7).encode())]):
        ids, told = tracing.ids(), json_line("up")
    assert ids is not None
    assert (told["trace_id"], told["span_id"]) == (context_of(7)[3:35], ids.span_id)
    assert "trace_id" not in json_line("up")
