"""The OpenAPI document of an API, and its page; both are generated from the API's list of endpoints. Pure."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple, cast

import msgspec
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from api.http.endpoint import JSON, Endpoint, RequestHeader, Shape
from api.http.http import Json
from ingest.roles import ANY

_REF = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(\w+)(?::(\w+))?\}")
_NO_WORD = re.compile(r"\W+")
_KINDS = {"int": "integer", "float": "number"}
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
summary {{ cursor: pointer; padding: .3rem 0; }} code {{ font-size: .95em; }}
.method {{ display: inline-block; min-width: 4.5rem; font-weight: 600; }}
pre {{ background: #8881; padding: .6rem; overflow-x: auto; }} small {{ color: #777; }}
:root {{ color-scheme: light dark; }}
</style></head><body><h1>{title} <small>{version}</small></h1><p>{about}
The same as <a href="{openapi}">OpenAPI</a>.</p>{endpoints}</body></html>"""


class Parameter(NamedTuple):
    """The description and an example of a path or query parameter."""

    says: str
    example: Any = None


class Details(NamedTuple):
    """Further descriptions of an endpoint; None for none."""

    tag: str
    description: str
    parameters: Mapping[str, Parameter]
    sent: Any = None
    """An example of a body."""
    answered: Any = None
    other_answers: Mapping[int, Any] = {}
    """Examples of answers with other statuses."""


class About(NamedTuple):
    """The title, version and description of an API, and what all of its endpoints share.

    `fault` is the type of an error body and `fault_media` its content type; `faults` describes the further statuses
    that an endpoint can return.
    """

    title: str
    version: str
    description: str
    fault: Shape
    faults: Callable[[Endpoint], Mapping[int, str]]
    headers: Callable[[Endpoint], Mapping[str, RequestHeader]] = lambda endpoint: {}
    """The request headers of an endpoint, besides those that it lists itself."""
    details: Callable[[Endpoint], Details] = lambda endpoint: Details("", "", {})
    tags: Mapping[str, str] = {}
    """The tags of endpoints and their descriptions."""
    fault_media: str = JSON
    below: str = ""
    """The path prefix of `/openapi.json` and the pages, on a port that the API shares."""
    pages: Sequence[str] = ("docs",)


ANYTHING: Mapping[str, Any] = {"type": "object", "additionalProperties": True}
TEXT: Mapping[str, Any] = {"type": "string"}


def object_schema(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    """The schema of an object with these properties."""
    return {"type": "object", "properties": properties, "required": [*required]}


DESCRIPTION = object_schema(
    {"openapi": TEXT, "info": ANYTHING, "paths": ANYTHING, "components": ANYTHING}, "openapi", "info", "paths"
)
_BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "An API key or the server's secret. Not needed if the server has neither.",
}
_COME_BACK = {"Retry-After": {"description": "Seconds to wait before a retry.", "schema": {"type": "integer"}}}


def document(about: About, endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The OpenAPI 3.1 document."""
    schemas = _Schemas(about, endpoints)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        path = _PARAMETER.sub(r"{\1}", endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(about, endpoint, schemas)
    tags = [{"name": name, "description": says} for name, says in about.tags.items()]
    return {
        "openapi": "3.1.0",
        "info": {"title": about.title, "version": about.version, "description": about.description},
        **({"tags": tags} if tags else {}),
        "paths": paths,
        "security": [{"bearer": []}, {}],
        "components": {"schemas": schemas.components, "securitySchemes": {"bearer": _BEARER}},
    }


def page(described: Mapping[str, Any], openapi: str = "openapi.json") -> str:
    """A self-contained HTML page of an OpenAPI document."""

    def details(summary: str, value: Mapping[str, Any]) -> str:
        text = escape(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
        return f"<details><summary>{summary}</summary><pre>{text}</pre></details>"

    parts: list[str] = []
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            summary = f'<span class="method">{method.upper()}</span> <code>{escape(path)}</code> '
            names = [name for name in ("parameters", "requestBody", "responses") if name in operation]
            parts.append(details(summary + escape(operation["summary"]), {name: operation[name] for name in names}))
    if schemas := described["components"]["schemas"]:
        parts.append("<h2>Schemas</h2>")
        parts += [details(f"<code>{escape(name)}</code>", schema) for name, schema in schemas.items()]
    info = described["info"]
    return _PAGE.format(
        title=escape(info["title"]),
        version=escape(info["version"]),
        about=escape(info["description"]),
        openapi=escape(openapi),
        endpoints="\n".join(parts),
    )


def documented(about: About, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    """The endpoints plus those that describe them: /openapi.json and the pages."""

    async def openapi(request: Request) -> Response:
        """This document, generated from the route declarations."""
        return Json(described)

    async def docs(request: Request) -> Response:
        """The same document as a self-contained page."""
        return HTMLResponse(html, headers={"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"})

    path = f"{about.below}/openapi.json"
    own = [
        Endpoint("GET", path, ANY, openapi, "The OpenAPI document.", "S", answer=DESCRIPTION),
        *(
            Endpoint(
                "GET", f"{about.below}/{name}", ANY, docs, "The OpenAPI document as an HTML page.", "S",
                answer=TEXT, media="text/html",
            )
            for name in about.pages
        ),
    ]  # fmt: skip
    described = document(about, [*endpoints, *own])
    html = page(described, path)
    return [*endpoints, *own]


def _operation(about: About, endpoint: Endpoint, schemas: "_Schemas") -> dict[str, Any]:
    details = about.details(endpoint)
    done = {"description": "Done."}
    responses = {
        str(endpoint.status): done | schemas.content(endpoint.answer, [endpoint.media], example=details.answered)
    }
    faults = {**about.faults(endpoint), **endpoint.faults}
    for status in sorted(faults):
        shape, media = about.fault, about.fault_media
        if status in endpoint.answers:
            shape, media = endpoint.answers[status], JSON
        headers = {"headers": _COME_BACK} if status in (429, 503) else {}
        responses[str(status)] = {"description": faults[status], **headers, **schemas.content(shape, [media])}
    for status, shape in endpoint.answers.items():
        if status not in faults:
            example = details.other_answers.get(status)
            responses[str(status)] = done | schemas.content(shape, [endpoint.media], example=example)
    plain = _PARAMETER.sub(r"\1", endpoint.path)
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        **({"description": details.description} if details.description else {}),
        **({"tags": [details.tag]} if details.tag else {}),
        "operationId": _NO_WORD.sub("_", f"{endpoint.method} {plain}").strip("_").lower(),
        "responses": responses,
    }
    if parameters := _parameters(about, endpoint, details, schemas):
        operation["parameters"] = parameters
    if endpoint.body is not None:
        content = schemas.content(endpoint.body, endpoint.taken, sent=True, example=details.sent)
        operation["requestBody"] = {"required": not endpoint.optional, **content}
    # OpenAPI 3.1: lists the roles that are needed, all of them
    operation["security"] = [] if endpoint.open else [{"bearer": sorted(endpoint.needs)}]
    return operation


def _parameters(about: About, endpoint: Endpoint, details: Details, schemas: "_Schemas") -> list[dict[str, Any]]:
    text = {"type": "string", "minLength": 1}
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": _KINDS[kind]} if kind in _KINDS else text}
        for name, kind in _PARAMETER.findall(endpoint.path)
    ]
    schema: Mapping[str, Any] = {} if endpoint.query is None else schemas.whole(endpoint.query)
    required = schema.get("required", [])
    parameters += [
        {"name": name, "in": "query", "required": name in required, "schema": _without_null(field)}
        for name, field in schema.get("properties", {}).items()
    ]
    for parameter in parameters:
        if described := details.parameters.get(parameter["name"]):
            parameter["description"] = described.says
            if described.example is not None:
                parameter["example"] = described.example
    return parameters + [
        {"name": name, "in": "header", "description": header.says, "schema": header.schema}
        for name, header in {**about.headers(endpoint), **endpoint.headers}.items()
    ]


def _without_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    # a query string has no null: a nullable parameter is optional
    selected = {name: value for name, value in schema.items() if name != "default" or value is not None}
    parts = [part for part in selected.get("anyOf", []) if part != {"type": "null"}]
    if len(parts) == 1:
        return {**{name: value for name, value in selected.items() if name != "anyOf"}, **parts[0]}
    return selected


class _Schemas:
    """The schemas of all requests and responses, and of the components they refer to."""

    def __init__(self, about: About, endpoints: Iterable[Endpoint]) -> None:
        shapes = [about.fault]
        for endpoint in endpoints:
            shapes += [endpoint.body, endpoint.query, endpoint.answer, *endpoint.answers.values()]
        types = list(dict.fromkeys(shape for shape in shapes if shape is not None and not isinstance(shape, Mapping)))
        models = [shape for shape in types if isinstance(shape, type) and issubclass(shape, BaseModel)]
        structs = [shape for shape in types if shape not in models]
        schemas, components = msgspec.json.schema_components(structs, ref_template=_REF)
        self._of: dict[Any, Mapping[str, Any]] = dict(zip(structs, schemas, strict=True))
        refs, definitions = models_json_schema(
            [(model, "validation") for model in models], ref_template=_REF.format(name="{model}")
        )
        self._of |= {model: refs[model, "validation"] for model in models}
        components |= cast("dict[str, Any]", definitions.get("$defs", {}))
        self.components: dict[str, Any] = components

    def content(
        self, shape: Shape | None, media: Sequence[str], *, sent: bool = False, example: Any = None
    ) -> dict[str, Any]:
        """The content of a body or a response; its first content type has the example. Empty without a type."""
        if shape is None:
            return {}
        schema = self._schema(shape)
        tag = getattr(getattr(shape, "__struct_config__", None), "tag_field", None)
        if sent and tag is not None:  # the route implies the `type` of its only command
            whole = self.whole(shape)
            schema = {**whole, "required": [name for name in whole.get("required", []) if name != tag]}
        content: dict[str, dict[str, Any]] = {name: {"schema": schema} for name in media}
        if example is not None:
            content[media[0]]["example"] = example
        return {"content": content}

    def whole(self, shape: Shape) -> Mapping[str, Any]:
        """The full schema of a type, resolved if it is a component."""
        schema = self._schema(shape)
        return self.components[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema

    def _schema(self, shape: Shape) -> Mapping[str, Any]:
        return cast("Mapping[str, Any]", shape) if isinstance(shape, Mapping) else self._of[shape]
