"""Secrets are in no field of an event, and in no line of a log."""

import json
import logging
import sys
from collections.abc import Callable
from contextvars import copy_context
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from factories import NOW
from msgspec.structs import replace
from secret_samples import Sample, listed, samples

from ingest.commands.decide import (
    AnyCommand,
    Caller,
    ForgetSubject,
    LinkCommit,
    Observe,
    RecordLesson,
    Relate,
    Remember,
    ReviseMemory,
    SetSlot,
    SummariseSession,
    TrackSession,
    WriteAction,
    decide,
)
from ingest.errors import CommandRejected
from ingest.events.envelope import encode
from ingest.ids import EventId
from ingest.nouns.action import ActionEdge
from ingest.platform import tracing
from ingest.platform.settings import Settings
from ingest.secrets.clean import clean_name
from ingest.secrets.redaction import HIDDEN, JsonFormatter, RedactingFormatter, formatter_of, redacted, secrets_of
from ingest.secrets.scrub import SECRET, scrub_text
from tests.support.otlp_receiver import context_of, traced

TOKEN = "ghp_" + "aZ9" * 12
SEEDS = (1,)
CAUGHT = 0.95

Make = Callable[[str], AnyCommand]
TEXT_PLACES: dict[str, Make] = {
    "content": lambda text: Observe(session_id="s", content=text),
    "kind": lambda text: Observe(session_id="s", content="a", kind=text),
    "trace": lambda text: Observe(session_id="s", content="a", trace=text),
    "data value": lambda text: Observe(session_id="s", data={"a": [1, {"b": text}]}),
    "data key": lambda text: Observe(session_id="s", data={"a": {text: 1}}),
    "metadata value": lambda text: Observe(session_id="s", content="a", metadata={"a": text}),
    "metadata key": lambda text: Observe(session_id="s", content="a", metadata={text: "b"}),
    "title": lambda text: Remember(content="a", title=text),
    "tag": lambda text: Remember(content="a", tags=["b", text]),
    "concept": lambda text: Remember(content="a", concepts=[text]),
    "file": lambda text: Remember(content="a", files=[text]),
    "reference": lambda text: Remember(content="a", references=[text]),
    "lesson": lambda text: RecordLesson(content=text),
    "lesson context": lambda text: RecordLesson(content="a", context=text),
    "trigger_tool": lambda text: RecordLesson(content="a", trigger_tool=text),
    "origin": lambda text: RecordLesson(content="a", origin=text),
    "cwd": lambda text: TrackSession(session_id="s", status="started", cwd=text),
    "agent_type": lambda text: TrackSession(session_id="s", status="started", agent_type=text),
    "reason": lambda text: TrackSession(session_id="s", status="ended", reason=text),
    "slot": lambda text: SetSlot(label="notes", content=text),
    "slot description": lambda text: SetSlot(label="notes", content="a", description=text),
    "action": lambda text: WriteAction(title=text, description=text),
    "action status": lambda text: WriteAction(title="a", status=text),
    "action edge": lambda text: WriteAction(title="a", edges=[ActionEdge(type="unlocks", target=text)]),
    "commit message": lambda text: LinkCommit(commit="9f1c", message=text),
    "branch": lambda text: LinkCommit(commit="9f1c", branch=text, repo=text, author=text),
    "summary": lambda text: SummariseSession(session_id="s", title=text, narrative=text, decisions=[text]),
    "revision": lambda text: ReviseMemory(memory="m", content=text, memory_type="semantic", purpose="information"),
}
NAME_PLACES: dict[str, Make] = {
    "project": lambda text: Observe(session_id="s", content="a", project=text),
    "session_id": lambda text: Observe(session_id=text, content="a"),
    "agent_id": lambda text: Observe(session_id="s", content="a", agent_id=text),
    "user_id": lambda text: Observe(session_id="s", content="a", user_id=text),
    "event_id": lambda text: Observe(session_id="s", content="a", event_id=text),
    "owner": lambda text: Remember(content="a", owner=text),
    "shared_with": lambda text: Remember(content="a", shared_with=["b", text], agent_id="ada"),
    "derived_from": lambda text: Remember(content="a", derived_from=[text]),
    "source": lambda text: Relate(source=text, target="b", relation="r"),
    "target": lambda text: Relate(source="a", target=text, relation="r"),
    "relation": lambda text: Relate(source="a", target="b", relation=text),
    "assigned_to": lambda text: WriteAction(title="a", assigned_to=text),
    "parent": lambda text: WriteAction(title="a", parent=text),
    "commit": lambda text: LinkCommit(commit=text),
    "label": lambda text: SetSlot(label=text, content="a"),
}
SHAPES: dict[str, str] = {**listed("shapes"), **listed("held_out"), **listed("forms")}
SAMPLES = [sample for seed in SEEDS for sample in samples(SHAPES, seed)]


def stored(command: AnyCommand, source: str = "native", agent: str = "") -> str:
    event_id = EventId(command.event_id or "e1")
    return encode(decide(command, Caller("acme", source, agent), event_id, NOW).event).decode("utf-8", "replace")


def caught(make: Make, one: Sample, source: str = "native") -> bool:
    try:
        return not one.leaks(stored(make(one.text), source))
    except CommandRejected:
        return True


def test_there_are_enough_shapes_and_places():
    assert len(SHAPES) >= 400
    assert len(TEXT_PLACES) + len(NAME_PLACES) >= 12


@pytest.mark.parametrize("make", TEXT_PLACES.values(), ids=TEXT_PLACES.keys())
def test_shapes_of_secrets_are_in_no_text_of_an_event(make: Make):
    leaked = sorted({one.name for one in SAMPLES if not caught(make, one)})
    assert len(leaked) <= (1 - CAUGHT) * len(SHAPES), leaked


@pytest.mark.parametrize("source", ["native", "agentmemory"])
@pytest.mark.parametrize("make", NAME_PLACES.values(), ids=NAME_PLACES.keys())
def test_shapes_of_secrets_are_in_no_name_of_an_event(make: Make, source: str):
    leaked = sorted({one.name for one in SAMPLES if not caught(make, one, source)})
    assert len(leaked) <= (1 - CAUGHT) * len(SHAPES), leaked


def test_a_known_token_is_redacted_in_every_text():
    for place, make in TEXT_PLACES.items():
        event = stored(make(f"with {TOKEN} in it"))
        assert TOKEN not in event, place
        assert f"with {SECRET} in it" in event, place


def test_a_known_token_in_a_name_is_refused_and_the_field_named():
    for field, make in NAME_PLACES.items():
        with pytest.raises(CommandRejected) as refused:
            stored(make(TOKEN))
        assert refused.value.field == field
        assert TOKEN not in str(refused.value), field


def test_a_name_is_replaced_where_nobody_would_see_a_refusal():
    for field in NAME_PLACES.keys() - {"label"}:
        make = NAME_PLACES[field]
        first, again, other = (stored(make(name), "agentmemory") for name in (TOKEN, TOKEN, TOKEN[:-1] + "b"))
        assert TOKEN not in first, field
        assert SECRET in first, field
        assert first == again
        assert first != other, "two names stay two"


def test_a_name_of_an_agent_that_a_header_gives_is_refused():
    with pytest.raises(CommandRejected) as refused:
        stored(Observe(session_id="s", content="a"), agent=TOKEN)
    assert refused.value.field == "agent_id"


def test_a_repeat_under_a_replaced_event_id_is_the_same_event():
    events = [
        decide(Observe(session_id="s", content="a", event_id=TOKEN), Caller("acme", "agentmemory"), EventId(TOKEN), NOW)
        for _ in range(2)
    ]
    assert events[0].event.envelope.event_id == events[1].event.envelope.event_id != TOKEN
    assert events[0].subject == events[1].subject


def test_what_was_stored_under_such_a_name_can_be_forgotten():
    command = ForgetSubject(project=TOKEN, kind="memory", subject="mem_1")
    assert decide(command, Caller("acme"), EventId("e1"), NOW).event.envelope.project == TOKEN


def test_replacing_a_name_is_idempotent():
    once = clean_name(f"shop-{TOKEN}", "replace", "project")
    assert clean_name(once, "replace", "project") == once == scrub_text(once)
    assert once.startswith(f"shop-{SECRET}-")


ORDINARY: list[Any] = [
    "auth: /srv/app/middleware/authentication.py",
    "auth:/srv/app/middleware/authentication_middleware_v2.py:120",
    "token=/usr/share/keyrings/docker-archive-keyring.gpg",
    "the token is in /srv/mnemolog/ingest/commands/scrub.py",
    "class AuthTokenProviderFactoryImplementation:",
    "secret: AuthTokenProviderFactoryBean",
    "const token = process.env.GITHUB_ACCESS_TOKEN;",
    'password = os.environ["DB_PASSWORD"]',
    "password = settings.database.password",
    "password: ${DB_PASSWORD}",
    "export TOKEN=$GITHUB_TOKEN",
    "Authorization: Bearer $TOKEN",
    "Authorization: Bearer <your-token>",
    'headers = {"Authorization": f"Bearer {token}"}',
    "api_key: xxxxxxxxxxxxxxxxxxxxxxxx",
    "password: changeme",
    "token=get_token(request, timeout=30)",
    "def login(user: str, password: str) -> Token:",
    "password: Optional[str] = None",
    "commit 9f1c2d3e4f5a6b7c8d9e0f1a2b3c4d5e6f708192 fixes it",
    "sha256:" + "0a1b2c3d" * 8,
    "the run 3f2504e0-4f89-41d3-9a0c-0305e82c3301 failed",
    '"integrity": "sha512-' + "Ab1+" * 21 + 'Ab=="',
    "token count: 12345678901234567890",
    "max_tokens=4096, token_limit: 200000",
    "secret_name: my-config-map",
    "secretName: billing-tls-certificate",
    "https://localhost:8080/@scope/package",
    "git@git.example.com:shop/app.git",
    "the password is required and must have 12 characters",
    "password is base64-encoded, then hashed with sha256",
    "basic authentication with bearer tokens",
    "docker run -u 1000:1000 image",
    "wrap it in `<private>` to keep it out",
    "-----BEGIN PRIVATE KEY----- is how such a file begins",
    "if password == expected_password:",
    "rotate the API key every 90 days",
    {"password": None, "tokens": 12, "auth": "none", "token": "string"},
    {"Authorization": "Bearer ${TOKEN}"},
]


def test_code_paths_and_placeholders_are_left_alone():
    for text in ORDINARY:
        if isinstance(text, str):
            assert scrub_text(text) is text
        command = Observe(session_id="s", content="a", data={"a": text})
        assert SECRET not in stored(command), text


KEY = "mnk_0123456789AB_" + "s" * 49


@pytest.mark.parametrize(
    "line",
    [
        f"refused {KEY}", f"Authorization: Bearer {KEY}", "{'authorization': 'bearer hunter2hunter2'}",
        "GET /stream?token=hunter2hunter2&x=1", "GET /x?api_key=hunter2hunter2",
        "cannot connect to redis://user:hunter2hunter2@host:6379/0",
    ],
)  # fmt: skip
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
