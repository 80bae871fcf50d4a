"""What a request that fails is told: a problem (RFC 9457), with the members that its code has."""

from typing import Any

import msgspec
import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from api.dialects.errors import at_the_gate
from api.http.http import HANDLERS, PROBLEM_JSON, TYPE_PREFIX, Problem, answer
from ingest.errors import (
    CommandRejected,
    LogFull,
    LogUnavailable,
    MalformedRequest,
    MnemologError,
    NotFound,
    Overloaded,
    ProjectionBehind,
    RebuildUnderWay,
    SlotFull,
)

REQUEST = Request({"type": "http", "method": "GET", "path": "/v1/memories", "headers": []})
AGAIN = "sending the same event_id again is safe"
UNKNOWN = f"the outcome is unknown; {AGAIN}"


@pytest.mark.parametrize(
    ("error", "status", "code", "members", "headers"),
    [
        (NotFound("there is none"), 404, "not_found", {}, {}),
        (CommandRejected("too long", "content"), 422, "invalid", {"field": "content"}, {}),
        (CommandRejected("nothing to change"), 422, "invalid", {}, {}),
        (SlotFull("persona", 12, 10), 413, "slot_full", {"size": 12, "limit": 10}, {}),
        (Overloaded("full", 7, "lag"), 429, "overloaded", {"reason": "lag"}, {"retry-after": "7"}),
        (LogFull("full"), 429, "overloaded", {"reason": "server", "retry": AGAIN}, {"retry-after": "5"}),
        (LogUnavailable("away"), 503, "log_unavailable", {"retry": UNKNOWN}, {"retry-after": "1"}),
        (ProjectionBehind(1.0, {3: 2}), 503, "projection_behind", {"lag": {"3": 2}}, {"retry-after": "1"}),
        (RebuildUnderWay("r1", "ready"), 409, "rebuild_under_way", {"rebuild": "r1"}, {}),
    ],
)
def test_an_error_is_a_problem_with_the_members_of_its_code(
    error: MnemologError, status: int, code: str, members: dict[str, Any], headers: dict[str, str]
):
    told = answer(error)
    assert (told.status_code, told.headers["content-type"]) == (status, PROBLEM_JSON)
    assert headers.items() <= dict(told.headers).items()
    title = code.replace("_", " ").capitalize()
    problem = {"type": f"urn:mnemolog:error:{code}", "title": title, "status": status, "detail": str(error)}
    assert msgspec.json.decode(bytes(told.body)) == {**problem, "code": code, **members}


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (HTTPException(404), 404, "not_found"),
        (HTTPException(405, headers={"Allow": "GET"}), 405, "method_not_allowed"),
        (HTTPException(400), 400, "http_error"),
        (ClientDisconnect(), 400, "client_disconnected"),
        (RedisConnectionError("refused"), 503, "log_unavailable"),
        (ZeroDivisionError("a secret detail"), 500, "internal"),
    ],
)
async def test_whatever_else_fails_is_a_problem_too(error: Exception, status: int, code: str):
    handler = next(HANDLERS[kind] for kind in type(error).__mro__ if kind in HANDLERS)
    told = await handler(REQUEST, error)
    problem = msgspec.json.decode(bytes(told.body), type=Problem)
    assert (told.status_code, told.headers["content-type"]) == (status, PROBLEM_JSON)
    assert (problem.status, problem.code, problem.type) == (status, code, TYPE_PREFIX + code)
    assert "secret" not in problem.detail
    assert told.headers.get("allow") == ("GET" if status == 405 else None)


def test_the_gate_of_a_dialect_answers_what_its_clients_know():
    """The wire of imitated systems does not follow that of the native API."""
    told = at_the_gate(MalformedRequest("there is more than one host header: send one"))
    assert (told.status_code, told.headers["content-type"]) == (400, "application/json")
    assert told.body == b'{"error":{"code":"malformed","message":"there is more than one host header: send one"}}'
    assert at_the_gate(LogUnavailable("away")).headers["retry-after"] == "1"
