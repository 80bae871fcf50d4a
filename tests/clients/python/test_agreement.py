"""The client asks for what the server declares, and reads what it answers: routes, fields, answers, side by side.

A field that the server adds to a body fails here until `tools/client_types.toml` says where it belongs.
"""

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, cast, get_args, get_type_hints

import msgspec
import pytest

from api.http.endpoint import Endpoint
from api.native.catalog import MODULES
from mnemolog_client import Position, fields
from mnemolog_client.calls import Call, Feed, Listing, Noun, Polled
from mnemolog_client.nouns import Root


class Noting:
    """A transport that answers a call with the call."""

    def send(self, call: Any, retry: Any = None) -> Any:
        return call

    def walk(self, listing: Any) -> Any:
        return listing


ROOT = Root(cast(Any, Noting()), Position("1:1-0"), "ada")
NOUNS: dict[str, Noun[Any]] = {
    "": ROOT,
    **{name: one for name, one in vars(ROOT).items() if isinstance(one, Noun)},
}
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "batch": ([{"type": "remember", "content": "tea"}],),
    "confirm": (["mem_1"],),
    "feedback": ("helped", ["mem_1"]),
    "forget": ("user", "u"),
    "slots.set": ("notes", "tea"),
    "slots.append": ("notes", "tea"),
    "observations.create": ("s1", "tea"),
    "actions.renew": ("x", "0:1-0"),
    "actions.release": ("x", "0:1-0"),
    "actions.complete": ("x", "0:1-0"),
}
"""Of calls that take another thing than one text, or nothing."""
NOTHING = {"events", "frontier", "health", "lessons.surest", "live", "projects", "receipts.list", "sessions.list"}


def calls() -> Iterator[tuple[str, Call[Any]]]:
    """Every call of the client, by name."""
    for noun_name, noun in NOUNS.items():
        for name in dir(type(noun)):
            if name.startswith("_") or name in {"advance", "carry_out", "position", "walk"}:
                continue
            full = f"{noun_name}.{name}".lstrip(".")
            given = ARGUMENTS.get(full, () if full in NOTHING else ("x",))
            yield full, first_of(getattr(noun, name)(*given))


def first_of(made: Call[Any] | Polled[Any] | Listing[Any] | Feed[Any]) -> Call[Any]:
    """The call itself, or the first that is made."""
    match made:
        case Polled(call=call) | Feed(call=call):
            return call
        case Listing(first=call):
            return call
        case Call():
            return made


CALLS = list(calls())
ENDPOINTS: list[Endpoint] = [endpoint for module in MODULES for endpoint in module.ENDPOINTS]


def endpoint_of(call: Call[Any]) -> Endpoint:
    """The server's route for a call: the one with the fewest parameters that fits."""
    fitting = [
        one
        for one in ENDPOINTS
        if one.method == call.method and re.fullmatch(re.sub(r"\{[^}]*\}", "[^/]+", one.path), call.path)
    ]
    return min(fitting, key=lambda one: one.path.count("{"))


def test_there_are_calls():
    assert len(CALLS) > 40


@pytest.mark.parametrize("call", [pytest.param(call, id=name) for name, call in CALLS])
def test_a_call_is_one_that_the_server_takes(call: Call[Any]):
    """Its route exists; its query string and body have the server's fields alone, `after` included."""
    endpoint = endpoint_of(call)
    if endpoint.query is not None:
        msgspec.convert(call.parameters("1:1-0"), endpoint.query, strict=False)
    else:
        assert call.parameters("1:1-0") == {}
    content = call.encoded("1:1-0")
    if content is not None and call.content is None:
        msgspec.json.decode(content, type=endpoint.body)


@pytest.mark.parametrize("call", [pytest.param(call, id=name) for name, call in CALLS])
def test_a_call_waits_wherever_the_server_can(call: Call[Any]):
    """Reads take the position of what was written; on the log `after` is a place to go on from."""
    endpoint = endpoint_of(call)
    takes_after = [shape for shape in (endpoint.query, endpoint.body) if "after" in _names(shape)]
    waits = "after" in call.parameters("1:1-0") or b'"after"' in (call.encoded("1:1-0") or b"")
    assert waits == (bool(takes_after) and call.path not in ("/v1/events", "/v1/live"))


@pytest.mark.parametrize("call", [pytest.param(call, id=name) for name, call in CALLS if name != "health"])
def test_a_write_has_an_event_id_wherever_the_server_takes_one(call: Call[Any]):
    endpoint = endpoint_of(call)
    takes_one = "event_id" in _names(endpoint.query) | _names(endpoint.body)
    has_one = "event_id" in call.query or "event_id" in (call.body or {}) or b'"event_id"' in (call.content or b"")
    assert has_one or not takes_one


OF_BODIES: list[tuple[str, type, set[str]]] = [
    ("memories.create", fields.OfMemory, {"content"}),
    ("memories.revise", fields.MemoryChanges, set()),
    ("observations.create", fields.OfObservation, {"content", "session_id"}),
    ("lessons.create", fields.OfLesson, {"content"}),
    ("lessons.revise", fields.LessonChanges, {"lesson"}),
    ("slots.set", fields.OfSlot, {"label", "content", "append"}),
    ("actions.create", fields.OfAction, {"title", "action", "result", "crystallized_into"}),
    ("actions.update", fields.ActionChanges, {"action", "parent"}),
    ("context", fields.ContextOptions, {"project", "after"}),
    ("feedback", fields.FeedbackOptions, {"verdict", "ids"}),
]
"""Fields as keywords, and those that stand apart or are not for this call."""


@pytest.mark.parametrize(("name", "keywords", "apart"), OF_BODIES, ids=[name for name, _, _ in OF_BODIES])
def test_the_fields_of_a_body_are_the_servers(name: str, keywords: type, apart: set[str]):
    call = next(call for full, call in CALLS if full == name)
    assert set(get_type_hints(keywords)) | apart == _names(endpoint_of(call).body)


def test_the_options_of_a_recall_are_the_servers():
    call = next(call for name, call in CALLS if name == "recall")
    renamed = {"since": "from", "until": "to"}
    options = {renamed.get(name, name) for name in get_type_hints(fields.RecallOptions)}
    assert options | {"query", "after"} == _names(endpoint_of(call).body)


def test_what_is_said_of_a_session_is_the_servers():
    call = next(call for name, call in CALLS if name == "sessions.start")
    said = {*get_type_hints(fields.SessionStart), *get_type_hints(fields.SessionEnd)}
    assert said | {"session_id", "status"} == _names(endpoint_of(call).body)


NOT_READ = {"Receipt.tenant", "Receipt.until"}
"""Of no use to a caller."""
READING = [pytest.param(call, id=name) for name, call in CALLS if isinstance(call.read, partial) and name != "live"]
"""Calls that return the whole answer, or a page of a listing."""


@pytest.mark.parametrize("call", READING)
def test_a_call_reads_the_answer_that_the_server_declares(call: Call[Any]):
    """It has all fields, and no others, also of what is listed, or those of a change with a condition."""
    ours, endpoint = cast("partial[Any]", call.read).keywords["type"], endpoint_of(call)
    declared = [endpoint.answer, *(kind for status, kind in endpoint.answers.items() if status == 200)]
    listed = get_args(ours) and get_args(endpoint.answer)
    pairs = [[get_args(kind)[0] if listed else kind for kind in (ours, theirs)] for theirs in declared]
    assert any(set(_differences(*pair)) <= NOT_READ for pair in pairs)


def _names(shape: Any) -> set[str]:
    """The names of a struct's fields as they are sent; nothing of what is no struct."""
    if isinstance(shape, type) and issubclass(shape, msgspec.Struct):
        return {field.encode_name for field in msgspec.structs.fields(shape)}
    return set()


def _differences(ours: Any, theirs: Any) -> Iterator[str]:
    """Fields that one of two structs has, and the other does not."""
    mine = {field.encode_name: field.type for field in msgspec.structs.fields(ours)}
    yours = {field.encode_name: field.type for field in msgspec.structs.fields(theirs)}
    yield from (f"{ours.__name__}.{name}" for name in mine.keys() ^ yours.keys())
    for name in mine.keys() & yours.keys():
        inner, other = _struct_in(mine[name]), _struct_in(yours[name])
        if inner is not None and other is not None:
            yield from _differences(inner, other)


def _struct_in(kind: Any) -> Any:
    """The struct that a field has, alone, in a list or where there is one."""
    found = [one for one in (kind, *get_args(kind)) if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    return found[0] if found else None
