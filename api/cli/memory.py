"""`mnemolog memory`: the commands of agentd's `agent memory`, for its service and for ours.

A plain client of that REST API: with the same flags, output and exit codes (0 done, 1 refused or away, 2 the command
was wrong) it takes the place of the other command line in scripts and prompts.
"""

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, NoReturn, TypeVar
from urllib.parse import quote, urlsplit

import httpx
import msgspec
import typer
from msgspec import Struct
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from api.cli.output import FAILED, USAGE, plain
from ingest.errors import InvalidSetting
from ingest.platform.addresses import LOOPBACK, client_key, proxy_options
from ingest.platform.settings import Settings, from_environment

T = TypeVar("T")

CONNECT_TIMEOUT_S = 10.0
"""An answer may take as long as it takes."""
ADVICE = "start one with `mnemolog up --drop-in agentd`, or set AGENTD_MEMORY_SERVICE_URL to where it is"
RULE = "-" * 80
SHOWN_BYTES, CUT_BYTES = 50, 49
"""Content of more bytes than that is cut in the table of `list`, to so many and an ellipsis."""
WIDE = 1_000
"""Columns where nobody looks: a table in a pipe is never folded."""


class MemoryKind(StrEnum):
    """What a memory is (an enum, because typer takes no list of literals)."""

    INFORMATION = "information"
    QUESTION = "question"
    REQUEST = "request"


class Level(StrEnum):
    """Who may find a memory."""

    PUBLIC = "public"
    SHARED = "shared"
    PRIVATE = "private"


class AgentdMemory(Struct, kw_only=True):
    """A memory as the service sends it; fields that are not known are dropped. Times stay as they were sent."""

    id: str
    content: str
    type: str
    tags: list[str] = msgspec.field(default_factory=list[str])
    created_by: str
    owner: str | None = None
    created_at: str
    updated_at: str
    visibility: str = "public"
    shared_with: list[str] = msgspec.field(default_factory=list[str])
    references: list[str] = msgspec.field(default_factory=list[str])


class AgentdMatches(Struct, kw_only=True):
    """The answer to a search."""

    memories: list[AgentdMemory]
    total: int


class AgentdPage(Struct, kw_only=True):
    """The answer to a listing."""

    items: list[AgentdMemory]
    total: int
    limit: int
    offset: int


class AgentdDeletion(Struct, kw_only=True):
    """The answer to a deletion."""

    deleted: bool


class AgentdHealth(Struct, kw_only=True):
    """The state of a service."""

    status: str
    service: str = ""
    version: str = ""
    details: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Id = Annotated[str, typer.Argument(metavar="ID")]
Lists = Annotated[str, typer.Option(help="By comma.")]
KindName = Annotated[MemoryKind | None, typer.Option("--type", case_sensitive=False, help="Only of this type.")]

memory = typer.Typer(
    name="memory",
    help="The commands of agentd's `agent memory`; the service is at AGENTD_MEMORY_SERVICE_URL, "
    "else on the host of MNEMOLOG_URL, at MNEMOLOG_AGENTD_PORT.",
    no_args_is_help=True,
)


def register(app: typer.Typer) -> None:
    """Add the group to an application."""
    app.add_typer(memory)


@memory.callback()
def _group(context: typer.Context, as_json: AsJson = False) -> None:
    context.obj = as_json


@memory.command()
def health(context: typer.Context, as_json: AsJson = False) -> None:
    """Say whether the service can be used."""
    state = _ask("GET", "/health", AgentdHealth)
    if not _printed(context, as_json, state):
        store = "healthy" if state.details.get("vector_store") else "unhealthy"
        _say(
            f"Service: {state.service}",
            f"Status: {state.status}",
            f"Version: {state.version}",
            f"Vector store: {store}",
        )


@memory.command()
def remember(
    context: typer.Context,
    content: Annotated[str, typer.Argument(help="What to remember.")],
    created_by: Annotated[str, typer.Option(help="Who says it.")],
    kind: Annotated[
        MemoryKind, typer.Option("--type", case_sensitive=False, help="What it is.")
    ] = MemoryKind.INFORMATION,
    tags: Lists = "",
    visibility: Annotated[Level, typer.Option(case_sensitive=False, help="Who may find it.")] = Level.PUBLIC,
    share_with: Lists = "",
    references: Lists = "",
    as_json: AsJson = False,
) -> None:
    """Store a memory."""
    body = {
        "content": content,
        "type": kind,
        "tags": _names(tags),
        "created_by": created_by,
        "visibility": visibility,
        "shared_with": _names(share_with),
        "references": _names(references),
    }
    stored = _ask("POST", "/memories", AgentdMemory, body=body)
    if not _printed(context, as_json, stored):
        _say("Memory stored.", *full(stored))


@memory.command()
def recall(context: typer.Context, name: Id, as_json: AsJson = False) -> None:
    """Show a memory."""
    found = _ask("GET", f"/memories/{quote(name, safe='')}", AgentdMemory)
    if not _printed(context, as_json, found):
        _say(*full(found))


@memory.command()
def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="What to look for, in plain words.")],
    as_actor: Annotated[str | None, typer.Option(help="Who asks: finds what is theirs, too.")] = None,
    kind: KindName = None,
    tags: Lists = "",
    limit: Annotated[int, typer.Option(min=0)] = 10,
    since: Annotated[str, typer.Option(help="Created then or later: 2026-01-31T12:00:00Z.")] = "",
    until: Annotated[str, typer.Option(help="Created then or earlier.")] = "",
    as_json: AsJson = False,
) -> None:
    """Find memories by meaning."""
    body: dict[str, Any] = {
        "query": query,
        "as_actor": as_actor,
        "type": kind,
        "tags": _names(tags) or None,
        "from": _utc(since, "--since"),
        "to": _utc(until, "--until"),
        "limit": limit,
    }
    sent = {name: value for name, value in body.items() if value is not None}
    found = _ask("POST", "/memories/search", AgentdMatches, body=sent)
    if _printed(context, as_json, found):
        return
    _say(f"Found {found.total} {'memory' if found.total == 1 else 'memories'}")
    for one in found.memories:
        tagged = [f"Tags: {', '.join(one.tags)}"] if one.tags else []
        _say(RULE, f"ID: {one.id}", f"[{one.type}] {one.content}", *tagged)
    _say(RULE if found.memories else "No memories match the query.")


@memory.command()
def forget(context: typer.Context, name: Id, as_json: AsJson = False) -> None:
    """Delete a memory."""
    answer = _ask("DELETE", f"/memories/{quote(name, safe='')}", AgentdDeletion)
    if not _printed(context, as_json, answer):
        _say(f"Memory {name} deleted." if answer.deleted else f"Memory {name} not found.")


@memory.command("list")
def list_memories(
    context: typer.Context,
    kind: KindName = None,
    tag: Annotated[str, typer.Option(help="Any of these, by comma.")] = "",
    created_by: Annotated[str, typer.Option(help="Only what they created.")] = "",
    visibility: Annotated[Level | None, typer.Option(case_sensitive=False, help="Only with this visibility.")] = None,
    limit: Annotated[int, typer.Option(min=0)] = 50,
    offset: Annotated[int, typer.Option(min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """List memories, newest first."""
    query = {"type": kind, "tag": tag, "created_by": created_by, "visibility": visibility}
    filters: dict[str, str] = {name: str(value) for name, value in query.items() if value}
    page = _ask("GET", "/memories", AgentdPage, params={**filters, "limit": str(limit), "offset": str(offset)})
    if _printed(context, as_json, page):
        return
    _say(f"Showing {len(page.items)}/{page.total} memories (offset {page.offset})")
    if page.items:
        console = Console()
        (console if console.is_terminal else Console(width=WIDE)).print(_table(page.items))


@memory.command()
def visibility(
    context: typer.Context,
    name: Id,
    level: Annotated[Level, typer.Argument(case_sensitive=False, help="Who may find it.")],
    share_with: Annotated[str | None, typer.Option(help="With whom a shared one is shared, by comma.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change who may find a memory."""
    body: dict[str, Any] = {"visibility": level}
    if share_with is not None:
        body["shared_with"] = _names(share_with)
    changed = _ask("PUT", f"/memories/{quote(name, safe='')}/visibility", AgentdMemory, body=body)
    if not _printed(context, as_json, changed):
        _say(f"Visibility of {changed.id} updated.", *full(changed))


def _ask(method: str, path: str, shape: type[T], *, body: Any = None, params: dict[str, str] | None = None) -> T:
    """The decoded answer; ends the command when there is none."""
    try:
        client = _client()
    except InvalidSetting as error:
        _fail(str(error), USAGE)
    content = None if body is None else msgspec.json.encode(body)
    with client:
        try:
            response = client.request(method, path, content=content, params=params)
            if response.status_code == 401:
                _fail(
                    f"the service at {client.base_url} asks for an API key: set MNEMOLOG_SECRET, or store one with "
                    "`mnemolog keys store`"
                )
            if not response.is_success:
                _fail(f"the service answered {response.status_code}: {response.text.strip()}")
            return msgspec.json.decode(response.content, type=shape)
        except httpx.TransportError as error:
            _fail(f"no memory service answers at {client.base_url}: {error or type(error).__name__}; {ADVICE}")
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            _fail(f"{client.base_url} does not answer as a memory service does: {error}")


def _client() -> httpx.Client:
    settings = from_environment(os.environ)
    url = _service(os.environ.get("AGENTD_MEMORY_SERVICE_URL") or "", settings)
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    key = client_key(str(url), os.environ)
    hosts = {url.host, urlsplit(settings.url).hostname or ""}
    if key is None and (len(hosts) == 1 or hosts <= LOOPBACK):
        key = client_key(settings.url, os.environ)  # another port of the same server
    if key:
        headers["Authorization"] = f"Bearer {key}"
    timeout = httpx.Timeout(None, connect=CONNECT_TIMEOUT_S)
    return httpx.Client(base_url=url, headers=headers, timeout=timeout, **proxy_options(str(url)))


def _service(named: str, settings: Settings) -> httpx.URL:
    """The service that is named; else our agentd API on the host where every other command finds its server.

    Raises InvalidSetting.
    """
    variable, url = ("AGENTD_MEMORY_SERVICE_URL", named.rstrip("/")) if named else ("MNEMOLOG_URL", settings.url)
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        parts = httpx.URL()
    if parts.scheme not in ("http", "https") or not parts.host:
        raise InvalidSetting(f"{variable}={url!r} is not an http:// or https:// address")
    return parts if named else httpx.URL(scheme=parts.scheme, host=parts.host, port=settings.agentd_ports[0])


def _fail(message: str, code: int = FAILED) -> NoReturn:
    typer.echo(f"error: {plain(message)}", err=True)
    raise typer.Exit(code)


def _printed(context: typer.Context, as_json: bool, answer: Struct) -> bool:
    """Print an answer as JSON, where that was asked for."""
    if not (as_json or context.obj):
        return False
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(_as_json(answer)), indent=2).decode() + "\n")
    return True


def _as_json(answer: Struct) -> Any:
    """The answer with its lists, empty or not, and without an owner where there is none."""
    fields: dict[str, Any] = msgspec.to_builtins(answer)
    for one in fields.get("memories") or fields.get("items") or [fields]:
        if one.get("owner", "") is None:
            del one["owner"]
    return fields


def full(one: AgentdMemory) -> list[str]:
    """A memory, a line for each thing there is to say."""
    several = [("Shared with", one.shared_with), ("Tags", one.tags)]
    lines = [
        ("ID", one.id),
        ("Type", one.type),
        ("Content", one.content),
        ("Created by", one.created_by),
        ("Created at", moment(one.created_at)),
        ("Visibility", one.visibility),
        *[(label, ", ".join(names)) for label, names in several if names],
        *([("Owner", one.owner)] if one.owner else []),
        *([("References", ", ".join(one.references))] if one.references else []),
    ]
    return [f"  {label}: {text}" for label, text in lines]


def _table(found: Sequence[AgentdMemory]) -> Table:
    table = Table(box=box.SQUARE)
    for title in ("ID", "Type", "Content", "Created By", "Visibility", "Tags"):
        table.add_column(title, overflow="fold")
    for one in found:
        cells = (one.id, one.type, cut(one.content), one.created_by, one.visibility, ", ".join(one.tags))
        table.add_row(*(Text(plain(" ".join(cell.split()))) for cell in cells))
    return table


def cut(text: str) -> str:
    """At most SHOWN_BYTES of a text, whole characters only."""
    encoded = text.encode()
    return text if len(encoded) <= SHOWN_BYTES else encoded[:CUT_BYTES].decode(errors="ignore") + "…"


def moment(text: str) -> str:
    """A time as people read it; what is no time as it is."""
    try:
        return f"{msgspec.convert(text, datetime).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (msgspec.ValidationError, OverflowError):
        return text


def _utc(text: str, option: str) -> str | None:
    """A time with an offset, in UTC; None for none. Raises BadParameter."""
    if not text:
        return None
    try:
        when = msgspec.convert(text, datetime)
        if when.tzinfo is None:
            raise ValueError("it has no offset")
        return when.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is no RFC 3339 time: write 2026-01-31T12:00:00Z", param_hint=option
        ) from None


def _names(listed: str) -> list[str]:
    return [part for part in map(str.strip, listed.split(",")) if part]


def _say(*lines: str) -> None:
    for line in lines:
        typer.echo(plain(line))
