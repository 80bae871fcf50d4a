"""The OpenAPI document of an API, and the page that shows it; both from the API's list of endpoints. Pure."""

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
    """What a parameter of a path or a query string says, and one that somebody might send."""

    says: str
    example: Any = None


class Details(NamedTuple):
    """What else an endpoint is described by; None says nothing."""

    tag: str
    description: str
    parameters: Mapping[str, Parameter]
    sent: Any = None
    """An example of a body."""
    answered: Any = None


class About(NamedTuple):
    """What an API is called, its version, what it says of itself, and what holds for all of its endpoints.

    `fault` is the shape of a refusal and `fault_media` its content type; `faults` says which statuses an endpoint can
    answer beside its own, and when.
    """

    title: str
    version: str
    description: str
    fault: Shape
    faults: Callable[[Endpoint], Mapping[int, str]]
    headers: Callable[[Endpoint], Mapping[str, RequestHeader]] = lambda one: {}
    """Request headers that count for an endpoint, beside those that it names itself."""
    details: Callable[[Endpoint], Details] = lambda one: Details("", "", {})
    tags: Mapping[str, str] = {}
    """What endpoints are grouped by, and what each group is about."""
    fault_media: str = JSON
    below: str = ""
    """Where `/openapi.json` and the pages are, on a port that the API shares."""
    pages: Sequence[str] = ("docs",)


ANYTHING: Mapping[str, Any] = {"type": "object", "additionalProperties": True}
TEXT: Mapping[str, Any] = {"type": "string"}
DESCRIPTION = {
    "type": "object",
    "properties": {"openapi": TEXT, "info": ANYTHING, "paths": ANYTHING, "components": ANYTHING},
    "required": ["openapi", "info", "paths"],
}
_BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "An API key, or the server's secret; a server that has neither asks for none.",
}
_COME_BACK = {"Retry-After": {"description": "Seconds to wait before asking again.", "schema": {"type": "integer"}}}


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
    """An HTML page of an OpenAPI document, at home without any other file."""
    shown: list[str] = []
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            details = {
                name: operation[name] for name in ("parameters", "requestBody", "responses") if name in operation
            }
            text = escape(msgspec.json.format(msgspec.json.encode(details), indent=2).decode())
            shown.append(
                f'<details><summary><span class="method">{method.upper()}</span> <code>{escape(path)}</code> '
                f"{escape(operation['summary'])}</summary><pre>{text}</pre></details>"
            )
    parts = [text for schemas in [described["components"]["schemas"]] if schemas for text in _schema_list(schemas)]
    info = described["info"]
    return _PAGE.format(
        title=escape(info["title"]),
        version=escape(info["version"]),
        about=escape(info["description"]),
        openapi=escape(openapi),
        endpoints="\n".join([*shown, *parts]),
    )


def documented(about: About, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    """The endpoints, and those that describe them: /openapi.json and the pages."""

    async def openapi(request: Request) -> Response:
        """This document, which is made of the same declarations as the routes."""
        return Json(described)

    async def docs(request: Request) -> Response:
        """The same document as a page that loads nothing else."""
        return HTMLResponse(shown, headers={"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"})

    path = f"{about.below}/openapi.json"
    own = [
        Endpoint("GET", path, ANY, openapi, "This description, for machines.", "S", answer=DESCRIPTION),
        *(
            Endpoint(
                "GET", f"{about.below}/{name}", ANY, docs, "This description, for people.", "S",
                answer=TEXT, media="text/html",
            )
            for name in about.pages
        ),
    ]  # fmt: skip
    described = document(about, [*endpoints, *own])
    shown = page(described, path)
    return [*endpoints, *own]


def _schema_list(schemas: Mapping[str, Any]) -> list[str]:
    return ["<h2>Schemas</h2>"] + [
        f"<details><summary><code>{escape(name)}</code></summary>"
        f"<pre>{escape(msgspec.json.format(msgspec.json.encode(schema), indent=2).decode())}</pre></details>"
        for name, schema in schemas.items()
    ]


def _operation(about: About, one: Endpoint, schemas: "_Schemas") -> dict[str, Any]:
    details = about.details(one)
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": _in_path(kind)}
        for name, kind in _PARAMETER.findall(one.path)
    ]
    in_headers = [
        {"name": name, "in": "header", "description": header.says, "schema": header.schema}
        for name, header in {**about.headers(one), **one.headers}.items()
    ]
    faults = {**about.faults(one), **one.faults}
    plain = _PARAMETER.sub(r"\1", one.path)
    operation: dict[str, Any] = {
        "summary": one.summary,
        **({"description": details.description} if details.description else {}),
        **({"tags": [details.tag]} if details.tag else {}),
        "operationId": _NO_WORD.sub("_", f"{one.method} {plain}").strip("_").lower(),
        "responses": {
            str(one.status): {"description": "Done."}
            | schemas.content(one.answer, [one.media], example=details.answered),
            **{str(status): _refusal(status, faults[status], about, one, schemas) for status in sorted(faults)},
        },
    }
    for status, shape in one.answers.items():
        if status not in faults:
            operation["responses"][str(status)] = {"description": "Done."} | schemas.content(shape, [one.media])
    parameters = [_described(one, details.parameters) for one in in_path + _query(one.query, schemas)]
    if parameters + in_headers:
        operation["parameters"] = parameters + in_headers
    if one.body is not None:
        content = schemas.content(one.body, one.taken, sent=True, example=details.sent)
        operation["requestBody"] = {"required": not one.optional, **content}
    # OpenAPI 3.1: the names are the roles that are needed, all of them
    operation["security"] = [] if one.open else [{"bearer": sorted(one.needs)}]
    return operation


def _described(parameter: dict[str, Any], known: Mapping[str, Parameter]) -> dict[str, Any]:
    about = known.get(parameter["name"])
    if about is None:
        return parameter
    example = {} if about.example is None else {"example": about.example}
    return {**parameter, "description": about.says, **example}


def _refusal(status: int, when: str, about: About, one: Endpoint, schemas: "_Schemas") -> dict[str, Any]:
    shape, media = (one.answers[status], JSON) if status in one.answers else (about.fault, about.fault_media)
    headers = {"headers": _COME_BACK} if status in (429, 503) else {}
    return {"description": when, **headers, **schemas.content(shape, [media])}


def _in_path(kind: str) -> dict[str, Any]:
    return {"type": _KINDS[kind]} if kind in _KINDS else {"type": "string", "minLength": 1}


def _query(asked: Shape | None, schemas: "_Schemas") -> list[dict[str, Any]]:
    if asked is None:
        return []
    schema = schemas.whole(asked)
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _without_null(about)}
        for name, about in schema.get("properties", {}).items()
    ]


def _without_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A query string has no null: what may be null may be left out."""
    selected = {name: value for name, value in schema.items() if name != "default" or value is not None}
    parts = [part for part in selected.get("anyOf", []) if part != {"type": "null"}]
    if len(parts) == 1:
        return {**{name: value for name, value in selected.items() if name != "anyOf"}, **parts[0]}
    return selected


class _Schemas:
    """The schema of everything that is asked for or answered, and the parts they refer to."""

    def __init__(self, about: About, endpoints: Iterable[Endpoint]) -> None:
        shapes = [about.fault]
        for endpoint in endpoints:
            shapes += [endpoint.body, endpoint.query, endpoint.answer, *endpoint.answers.values()]
        types = list(dict.fromkeys(shape for shape in shapes if shape is not None and not isinstance(shape, Mapping)))
        models = [one for one in types if isinstance(one, type) and issubclass(one, BaseModel)]
        structs = [one for one in types if one not in models]
        found, components = msgspec.json.schema_components(structs, ref_template=_REF)
        self._of: dict[Any, Mapping[str, Any]] = dict(zip(structs, found, strict=True))
        refs, definitions = models_json_schema(
            [(model, "validation") for model in models], ref_template=_REF.format(name="{model}")
        )
        self._of |= {model: refs[model, "validation"] for model in models}
        components |= cast("dict[str, Any]", definitions.get("$defs", {}))
        self.components: dict[str, Any] = components

    def content(
        self, shape: Shape | None, media: Sequence[str], *, sent: bool = False, example: Any = None
    ) -> dict[str, Any]:
        """The content of a body or an answer, the first of whose types has the example; nothing without a shape."""
        if shape is None:
            return {}
        schema = self._sent(shape) if sent else self._schema(shape)
        content: dict[str, dict[str, Any]] = {one: {"schema": schema} for one in media}
        if example is not None:
            content[media[0]]["example"] = example
        return {"content": content}

    def whole(self, shape: Shape) -> Mapping[str, Any]:
        """The schema of a shape itself, where that is one of the components."""
        schema = self._schema(shape)
        return self.components[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema

    def _schema(self, shape: Shape) -> Mapping[str, Any]:
        return cast("Mapping[str, Any]", shape) if isinstance(shape, Mapping) else self._of[shape]

    def _sent(self, shape: Shape) -> Mapping[str, Any]:
        """The same of a body. A command that a route takes alone needs no `type`: the route says it."""
        tag = getattr(getattr(shape, "__struct_config__", None), "tag_field", None)
        if tag is None:
            return self._schema(shape)
        whole = dict(self.whole(shape))
        return {**whole, "required": [name for name in whole.get("required", []) if name != tag]}
