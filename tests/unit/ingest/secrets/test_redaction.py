"""Secrets out of logs."""

import logging
import sys
from pathlib import Path

import pytest

from ingest.platform.settings import Settings
from ingest.secrets.redaction import HIDDEN, RedactingFormatter, redacted, secrets_of

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
