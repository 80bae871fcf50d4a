"""What a door says of itself is what it does: every route is in its document, and nothing else is."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import jsonschema_rs
import pytest
from msgspec import convert
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from api.access.admission import Guarded
from api.access.principal import SCOPE_KEY, open_caller
from api.app import create_listeners
from api.dialects.agent_memory import app as agent_memory
from api.dialects.agentd import app as agentd
from api.dialects.agentmemory import app as agentmemory
from api.dialects.memex import app as memex
from api.http.endpoint import Endpoint, routes
from api.http.openapi import document
from api.native import catalog
from api.native.catalog import ANSWERED, PARAMETERS, SENT, TAGS
from ingest.platform.settings import Settings
from ingest.roles import ANY
from projections.nouns.action import Action
from projections.nouns.lesson import Lesson
from projections.nouns.relation import Relation
from projections.nouns.session import Session
from projections.nouns.slot import Slot
from projections.queries.lesson import LessonView
from projections.queries.session import SessionView
from projections.queries.views import view
from projections.queries.work import ActionView, RelationView, SlotView

PORTS = {"agentd": 1, "agent-memory": 2, "memex": 3, "memex-mcp": 4}


def applications() -> dict[str, Starlette]:
    """The application of every door, built and never started."""
    doors = create_listeners(
        Settings(
            redis_url="redis://127.0.0.1:1",
            data_dir=Path("/nowhere"),
            cache_dir=Path("/nowhere"),
            drop_in=("agentd", "agent-memory", "memex"),
            agentd_ports=(PORTS["agentd"],),
            agent_memory_ports=(PORTS["agent-memory"],),
            memex_ports=(PORTS["memex"],),
            memex_mcp_ports=(PORTS["memex-mcp"],),
        )
    )
    return {
        "native": doors.native,
        "agentmemory": doors.on_main_port[0][1],
        **{name: doors.by_port[port] for name, port in PORTS.items()},
    }


APPLICATIONS = applications()


def documents() -> dict[str, dict[str, Any]]:
    """What every door says of itself."""
    mcp = next(route for route in APPLICATIONS["native"].routes if isinstance(route, Route) and route.path == "/mcp")
    return {
        "native": document(catalog.ABOUT, catalog.endpoints(mcp)),
        "agentmemory": document(agentmemory.ABOUT, agentmemory.ENDPOINTS),
        "agentd": document(agentd.ABOUT, agentd.ENDPOINTS),
        "agent-memory": document(agent_memory.ABOUT, agent_memory.ENDPOINTS),
        "memex": document(memex.ABOUT, memex.ENDPOINTS),
        # It has one path, which speaks MCP: what can be asked there, the protocol itself tells.
        "memex-mcp": {"paths": {"/mcp": {"get": {}, "post": {}, "delete": {}}}},
    }


DOCUMENTS = documents()


def served(app: Starlette) -> set[str]:
    """`METHOD /path` of every route. WebSockets are none: OpenAPI has no word for them."""
    return {
        f"{method} {route.path.replace(':path', '').replace(':int', '')}"
        for route in app.routes
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD"
    }


def described(call: dict[str, Any]) -> set[str]:
    """The same of a document."""
    return {f"{method.upper()} {path}" for path, operations in call["paths"].items() for method in operations}


@pytest.mark.parametrize("call", DOCUMENTS)
def test_a_door_describes_all_of_its_routes_and_no_others(call: str):
    assert described(DOCUMENTS[call]) == served(APPLICATIONS[call])


@pytest.mark.parametrize("call", [name for name in DOCUMENTS if name != "memex-mcp"])
def test_a_document_says_for_every_route_which_roles_it_asks_for(call: str):
    asked = {
        f"{method} {route.path.replace(':path', '').replace(':int', '')}": sorted(needs)
        for route in APPLICATIONS[call].routes
        if isinstance(route, Route) and isinstance(route.app, Guarded)
        for method, needs in route.app.needs.items()
    }
    told = {
        f"{method.upper()} {path}": operation["security"]
        for path, operations in DOCUMENTS[call]["paths"].items()
        for method, operation in operations.items()
    }
    assert asked.keys() == told.keys()
    for way, roles in asked.items():
        assert told[way] in ([{"bearer": roles}], [] if not roles else None), way


def test_a_route_that_is_not_declared_would_be_found():
    app = applications()["native"]

    async def answer(request: Request) -> PlainTextResponse:
        return PlainTextResponse("")

    app.routes.append(Route("/v1/secret", answer, methods=["POST"]))
    assert served(app) - described(DOCUMENTS["native"]) == {"POST /v1/secret"}


def operations() -> Iterable[tuple[str, dict[str, Any]]]:
    """Every operation of every door that has a document."""
    for call, told in DOCUMENTS.items():
        for path, found in told["paths"].items() if "openapi" in told else ():
            for method, operation in found.items():
                yield f"{call}: {method.upper()} {path}", operation


def test_every_schema_of_a_document_is_one_and_says_something():
    """No answer with a body is told as `{}`, which is anything; and every reference leads somewhere."""
    for name, operation in operations():
        for status, told in operation["responses"].items():
            for media in told.get("content", {}).values():
                assert media["schema"], f"{name} answers {status} with anything"
    for told in DOCUMENTS.values():
        components = told.get("components", {})
        for schema in components.get("schemas", {}).values():
            jsonschema_rs.validator_for({**schema, "components": components})


def test_names_of_operations_are_unique_within_a_door():
    for told in DOCUMENTS.values():
        names = [
            operation["operationId"]
            for found in told["paths"].values()
            for operation in found.values()
            if "operationId" in operation
        ]
        assert len(names) == len(set(names))


NATIVE = DOCUMENTS["native"]
OF_THE_NATIVE_API = [
    (f"{method.upper()} {path}", operation)
    for path, found in NATIVE["paths"].items()
    for method, operation in found.items()
]
STATUSES = ("400", "413", "415")
NO_PROBLEMS = {
    "POST /mcp": {"202", "400", "403", "406", "413", "415", "421"},
    "POST /v1/traces": STATUSES,
    "POST /v1/logs": STATUSES,
}
"""What MCP and OTLP answer as their protocols say."""


@pytest.mark.parametrize(("name", "operation"), OF_THE_NATIVE_API, ids=[name for name, _ in OF_THE_NATIVE_API])
def test_a_native_operation_says_what_it_does_and_what_it_is_asked_with(name: str, operation: dict[str, Any]):
    """The summary in a line, the description in more; every parameter says something, and a needed one shows how."""
    assert operation["summary"]
    assert operation["description"] not in ("", operation["summary"])
    assert operation["operationId"]
    assert set(operation["tags"]) <= {tag["name"] for tag in NATIVE["tags"]}
    for parameter in operation.get("parameters", []):
        assert parameter["description"], parameter["name"]
        assert "example" in parameter or not parameter.get("required"), parameter["name"]


@pytest.mark.parametrize(("name", "operation"), OF_THE_NATIVE_API, ids=[name for name, _ in OF_THE_NATIVE_API])
def test_a_native_operation_shows_a_body_and_an_answer_that_are_as_their_schemas_say(
    name: str, operation: dict[str, Any]
):
    answers = [one for status, one in operation["responses"].items() if status < "300"]
    for shown in [operation.get("requestBody", {}), *answers]:
        content = list(shown.get("content", {}).values())
        for one in content[:1]:  # the other types are of the same values
            schema = {**one["schema"], "components": NATIVE["components"]}
            jsonschema_rs.validator_for(schema, validate_formats=True).validate(one["example"])


@pytest.mark.parametrize(("name", "operation"), OF_THE_NATIVE_API, ids=[name for name, _ in OF_THE_NATIVE_API])
def test_a_native_operation_refuses_with_a_problem(name: str, operation: dict[str, Any]):
    for status, answer in operation["responses"].items():
        if status >= "400" and status not in NO_PROBLEMS.get(name, ()):
            schema = {"$ref": "#/components/schemas/Problem"}
            assert answer["content"] == {"application/problem+json": {"schema": schema}}, status


def test_every_example_and_every_parameter_that_is_described_is_one_of_the_native_api():
    endpoints = [one for module in catalog.MODULES for one in module.ENDPOINTS]
    shapes = [inner for endpoint in endpoints for inner in (get_args(endpoint.answer) or (endpoint.answer,))]
    assert {getattr(shape, "__name__", "") for shape in shapes} >= ANSWERED.keys()
    assert {getattr(endpoint.body, "__name__", "") for endpoint in endpoints} >= SENT.keys()
    asked = {
        name
        for path, operations in NATIVE["paths"].items()
        for operation in operations.values()
        for parameter in operation.get("parameters", [])
        for name in (parameter["name"], f"{path} {parameter['name']}")
    }
    assert asked >= PARAMETERS.keys()
    assert {tag for _, operation in OF_THE_NATIVE_API for tag in operation["tags"]} == TAGS.keys()


@pytest.mark.parametrize(
    ("document", "shape"),
    [
        (Lesson(), LessonView),
        (Slot(), SlotView),
        (Action(), ActionView),
        (Relation(), RelationView),
        (Session(), SessionView),
    ],
)
def test_a_document_is_answered_as_its_shape_describes_it(document: Any, shape: Any):
    assert tuple(view(document)) == shape.__struct_fields__
    assert convert(view(document), shape)


def past_the_gate(app: ASGIApp) -> ASGIApp:
    """The application, each of whose requests has a principal without any role."""

    async def admitted(scope: Scope, receive: Receive, send: Send) -> None:
        scope[SCOPE_KEY] = open_caller("default")
        await app(scope, receive, send)

    return admitted


def test_the_order_of_endpoints_is_of_no_account():
    """A word is asked before a parameter, and that before one with slashes in it."""

    def answering(path: str) -> Endpoint:
        async def answer(request: Any) -> PlainTextResponse:
            return PlainTextResponse(path)

        return Endpoint("GET", path, ANY, answer, path)

    paths = ["/a/{id:path}", "/a/{id}", "/a/{id:path}/b", "/a/c"]
    client = TestClient(past_the_gate(Starlette(routes=routes([answering(path) for path in paths]))))
    asked = {path: client.get(path).text for path in ("/a/c", "/a/x", "/a/x/y", "/a/x/y/b")}
    assert asked == {"/a/c": "/a/c", "/a/x": "/a/{id}", "/a/x/y": "/a/{id:path}", "/a/x/y/b": "/a/{id:path}/b"}


def test_a_path_refuses_a_method_it_has_not_and_names_those_it_has():
    async def answer(request: Any) -> PlainTextResponse:
        return PlainTextResponse("")

    both = [Endpoint(method, "/a", ANY, answer, "") for method in ("GET", "POST")]
    refused = TestClient(past_the_gate(Starlette(routes=routes(both)))).put("/a")
    assert refused.status_code == 405
    assert set(refused.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}
