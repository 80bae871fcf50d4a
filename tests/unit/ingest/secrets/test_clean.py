"""Secrets are in no field of an event: text is redacted, a name that holds one is refused or replaced."""

from collections.abc import Callable
from typing import Any

import pytest
from factories import NOW
from secret_held_out import HELD_OUT
from secret_shapes import SHAPES, Sample, samples

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
from ingest.events.action import ActionEdge
from ingest.events.envelope import encode
from ingest.ids import EventId
from ingest.secrets.clean import clean_name
from ingest.secrets.scrub import SECRET, scrub_text

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
SAMPLES = [one for seed in SEEDS for shapes in (SHAPES, HELD_OUT) for one in samples(shapes, seed)]


def stored(command: AnyCommand, source: str = "native", agent: str = "") -> str:
    event_id = EventId(command.event_id or "e1")
    return encode(decide(command, Caller("acme", source, agent), event_id, NOW).event).decode("utf-8", "replace")


def caught(make: Make, one: Sample, source: str = "native") -> bool:
    try:
        return not one.leaks(stored(make(one.text), source))
    except CommandRejected:
        return True


def test_there_are_enough_shapes_and_places():
    assert len(SHAPES) >= 150
    assert len(HELD_OUT) >= 60
    assert len(TEXT_PLACES) + len(NAME_PLACES) >= 12


@pytest.mark.parametrize("make", TEXT_PLACES.values(), ids=TEXT_PLACES.keys())
def test_shapes_of_secrets_are_in_no_text_of_an_event(make: Make):
    leaked = sorted({one.name for one in SAMPLES if not caught(make, one)})
    assert len(leaked) <= (1 - CAUGHT) * (len(SHAPES) + len(HELD_OUT)), leaked


@pytest.mark.parametrize("source", ["native", "agentmemory"])
@pytest.mark.parametrize("make", NAME_PLACES.values(), ids=NAME_PLACES.keys())
def test_shapes_of_secrets_are_in_no_name_of_an_event(make: Make, source: str):
    leaked = sorted({one.name for one in SAMPLES if not caught(make, one, source)})
    assert len(leaked) <= (1 - CAUGHT) * (len(SHAPES) + len(HELD_OUT)), leaked


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
