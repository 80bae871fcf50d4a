"""`mnemolog memory`: the commands of agentd's `agent memory`, for its service and for ours.

A client of that REST API with the same flags, output and exit codes (0 done, 1 refused or unreachable, 2 wrong usage),
so that it can replace the other command line in scripts and prompts.
"""

import os
import sys
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
from api.cli.rows import AsJson, names_in
from ingest.errors import InvalidSetting
from ingest.platform.addresses import LOOPBACK, client_key, proxy_options
from ingest.platform.settings import from_environment

T = TypeVar("T")

CONNECT_TIMEOUT_S = 10.0
"""Answers have no time limit."""
ADVICE = "start one with `mnemolog up --drop-in agentd`, or set AGENTD_MEMORY_SERVICE_URL to its address"
RULE = "-" * 80
SHOWN_BYTES, CUT_BYTES = 50, 49
"""Longer content is cut in the table of `list`, to this many bytes and an ellipsis."""
WIDE = 1_000
"""Columns of a table in a pipe, which is never folded."""


class MemoryKind(StrEnum):
    """Type of a memory (an enum, because typer matches literals by case)."""

    INFORMATION = "information"
    QUESTION = "question"
    REQUEST = "request"


class Level(StrEnum):
    """Who can find a memory."""

    PUBLIC = "public"
    SHARED = "shared"
    PRIVATE = "private"


class AgentdMemory(Struct, kw_only=True):
    """A memory as the service sends it, without unknown fields. Times stay as they were sent."""

    id: str
    content: str
    type: str
    tags: list[str] = []
    created_by: str
    owner: str | None = None
    created_at: str
    updated_at: str
    visibility: str = "public"
    shared_with: list[str] = []
    references: list[str] = []


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
    details: dict[str, Any] = {}


Id = Annotated[str, typer.Argument(metavar="ID")]
Lists = Annotated[str, typer.Option(help="Comma-separated.")]
KindName = Annotated[MemoryKind | None, typer.Option("--type", case_sensitive=False, help="Only of this type.")]

commands = typer.Typer(
    name="memory",
    help="The commands of agentd's `agent memory`; the service is at AGENTD_MEMORY_SERVICE_URL, "
    "by default on the host of MNEMOLOG_URL, at MNEMOLOG_AGENTD_PORT.",
    no_args_is_help=True,
)


def register(app: typer.Typer) -> None:
    """Add the group to an application."""
    app.add_typer(commands)


@commands.callback()
def _group(context: typer.Context, as_json: AsJson = False) -> None:
    context.obj = as_json


@commands.command()
def health(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the state of the service."""
    state = _ask("GET", "/health", AgentdHealth)
    if not _print_json(context, as_json, state):
        store = "healthy" if state.details.get("vector_store") else "unhealthy"
        _say(
            f"Service: {state.service}",
            f"Status: {state.status}",
            f"Version: {state.version}",
            f"Vector store: {store}",
        )


@commands.command()
def remember(
    context: typer.Context,
    content: Annotated[str, typer.Argument(help="What to remember.")],
    created_by: Annotated[str, typer.Option(help="Who creates it.")],
    kind: Annotated[
        MemoryKind, typer.Option("--type", case_sensitive=False, help="Type of the memory.")
    ] = MemoryKind.INFORMATION,
    tags: Lists = "",
    visibility: Annotated[Level, typer.Option(case_sensitive=False, help="Who can find it.")] = Level.PUBLIC,
    share_with: Lists = "",
    references: Lists = "",
    as_json: AsJson = False,
) -> None:
    """Store a memory."""
    body = {
        "content": content,
        "type": kind,
        "tags": names_in([tags]),
        "created_by": created_by,
        "visibility": visibility,
        "shared_with": names_in([share_with]),
        "references": names_in([references]),
    }
    stored = _ask("POST", "/memories", AgentdMemory, body=body)
    if not _print_json(context, as_json, stored):
        _say("Memory stored.", *full(stored))


@commands.command()
def recall(context: typer.Context, name: Id, as_json: AsJson = False) -> None:
    """Show a memory."""
    answer = _ask("GET", f"/memories/{quote(name, safe='')}", AgentdMemory)
    if not _print_json(context, as_json, answer):
        _say(*full(answer))


@commands.command()
def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="What to look for, in plain language.")],
    as_actor: Annotated[str | None, typer.Option(help="Who asks; also finds their own memories.")] = None,
    kind: KindName = None,
    tags: Lists = "",
    limit: Annotated[int, typer.Option(min=0)] = 10,
    since: Annotated[str, typer.Option(help="Created at or after this time: 2026-01-31T12:00:00Z.")] = "",
    until: Annotated[str, typer.Option(help="Created at or before this time.")] = "",
    as_json: AsJson = False,
) -> None:
    """Find memories by meaning."""
    body: dict[str, Any] = {
        "query": query,
        "as_actor": as_actor,
        "type": kind,
        "tags": names_in([tags]) or None,
        "from": _utc(since, "--since"),
        "to": _utc(until, "--until"),
        "limit": limit,
    }
    sent = {name: value for name, value in body.items() if value is not None}
    answer = _ask("POST", "/memories/search", AgentdMatches, body=sent)
    if _print_json(context, as_json, answer):
        return
    _say(f"Found {answer.total} {'memory' if answer.total == 1 else 'memories'}")
    for memory in answer.memories:
        tags_line = [f"Tags: {', '.join(memory.tags)}"] if memory.tags else []
        _say(RULE, f"ID: {memory.id}", f"[{memory.type}] {memory.content}", *tags_line)
    _say(RULE if answer.memories else "No memories match the query.")


@commands.command()
def forget(context: typer.Context, name: Id, as_json: AsJson = False) -> None:
    """Delete a memory."""
    answer = _ask("DELETE", f"/memories/{quote(name, safe='')}", AgentdDeletion)
    if not _print_json(context, as_json, answer):
        _say(f"Memory {name} deleted." if answer.deleted else f"Memory {name} not found.")


@commands.command("list")
def list_memories(
    context: typer.Context,
    kind: KindName = None,
    tag: Annotated[str, typer.Option(help="Any of these, comma-separated.")] = "",
    created_by: Annotated[str, typer.Option(help="Only memories created by this agent.")] = "",
    visibility: Annotated[Level | None, typer.Option(case_sensitive=False, help="Only with this visibility.")] = None,
    limit: Annotated[int, typer.Option(min=0)] = 50,
    offset: Annotated[int, typer.Option(min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """List memories, newest first."""
    query = {"type": kind, "tag": tag, "created_by": created_by, "visibility": visibility}
    filters: dict[str, str] = {name: str(value) for name, value in query.items() if value}
    page = _ask("GET", "/memories", AgentdPage, params={**filters, "limit": str(limit), "offset": str(offset)})
    if _print_json(context, as_json, page):
        return
    _say(f"Showing {len(page.items)}/{page.total} memories (offset {page.offset})")
    if page.items:
        table = Table(box=box.SQUARE)
        for title in ("ID", "Type", "Content", "Created By", "Visibility", "Tags"):
            table.add_column(title, overflow="fold")
        for memory in page.items:
            tags, content = ", ".join(memory.tags), cut(memory.content)
            cells = (memory.id, memory.type, content, memory.created_by, memory.visibility, tags)
            table.add_row(*(Text(plain(" ".join(cell.split()))) for cell in cells))
        console = Console()
        (console if console.is_terminal else Console(width=WIDE)).print(table)


@commands.command()
def visibility(
    context: typer.Context,
    name: Id,
    level: Annotated[Level, typer.Argument(case_sensitive=False, help="Who can find it.")],
    share_with: Annotated[
        str | None, typer.Option(help="Agents a shared memory is shared with, comma-separated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change who can find a memory."""
    body: dict[str, Any] = {"visibility": level}
    if share_with is not None:
        body["shared_with"] = names_in([share_with])
    changed = _ask("PUT", f"/memories/{quote(name, safe='')}/visibility", AgentdMemory, body=body)
    if not _print_json(context, as_json, changed):
        _say(f"Visibility of {changed.id} updated.", *full(changed))


def _ask(method: str, path: str, shape: type[T], *, body: Any = None, params: dict[str, str] | None = None) -> T:
    """The decoded answer; exits if there is none."""
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
                    f"the service at {client.base_url} requires an API key: set MNEMOLOG_SECRET, or store one with "
                    "`mnemolog keys store`"
                )
            if not response.is_success:
                _fail(f"the service answered {response.status_code}: {response.text.strip()}")
            return msgspec.json.decode(response.content, type=shape)
        except httpx.TransportError as error:
            _fail(f"no memory service answers at {client.base_url}: {error or type(error).__name__}; {ADVICE}")
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            _fail(f"{client.base_url} is not a memory service: {error}")


def _client() -> httpx.Client:
    """A client of the service in AGENTD_MEMORY_SERVICE_URL; by default of our agentd API on the host of MNEMOLOG_URL.

    Raises InvalidSetting.
    """
    settings = from_environment(os.environ)
    service = os.environ.get("AGENTD_MEMORY_SERVICE_URL") or ""
    variable, address = (
        ("AGENTD_MEMORY_SERVICE_URL", service.rstrip("/")) if service else ("MNEMOLOG_URL", settings.url)
    )
    try:
        url = httpx.URL(address)
    except httpx.InvalidURL:
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise InvalidSetting(f"{variable}={address!r} is not an http:// or https:// address")
    if not service:
        url = httpx.URL(scheme=url.scheme, host=url.host, port=settings.agentd_ports[0])
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    key = client_key(str(url), os.environ)
    hosts = {url.host, urlsplit(settings.url).hostname or ""}
    if key is None and (len(hosts) == 1 or hosts <= LOOPBACK):
        key = client_key(settings.url, os.environ)  # another port of the same server
    if key:
        headers["Authorization"] = f"Bearer {key}"
    timeout = httpx.Timeout(None, connect=CONNECT_TIMEOUT_S)
    return httpx.Client(base_url=url, headers=headers, timeout=timeout, **proxy_options(str(url)))


def _fail(message: str, code: int = FAILED) -> NoReturn:
    typer.echo(f"error: {plain(message)}", err=True)
    raise typer.Exit(code)


def _print_json(context: typer.Context, as_json: bool, answer: Struct) -> bool:
    """Print an answer as JSON, if requested: all its lists, but no empty owner."""
    if not (as_json or context.obj):
        return False
    fields: dict[str, Any] = msgspec.to_builtins(answer)
    for memory in fields.get("memories") or fields.get("items") or [fields]:
        if memory.get("owner", "") is None:
            del memory["owner"]
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(fields), indent=2).decode() + "\n")
    return True


def full(memory: AgentdMemory) -> list[str]:
    """A memory, one line per field."""
    lines = [
        ("ID", memory.id),
        ("Type", memory.type),
        ("Content", memory.content),
        ("Created by", memory.created_by),
        ("Created at", moment(memory.created_at)),
        ("Visibility", memory.visibility),
    ]
    optional = [
        ("Shared with", ", ".join(memory.shared_with)),
        ("Tags", ", ".join(memory.tags)),
        ("Owner", memory.owner),
        ("References", ", ".join(memory.references)),
    ]
    lines += [(label, text) for label, text in optional if text]
    return [f"  {label}: {text}" for label, text in lines]


def cut(text: str) -> str:
    """At most SHOWN_BYTES of a text, cut between characters."""
    encoded = text.encode()
    return text if len(encoded) <= SHOWN_BYTES else encoded[:CUT_BYTES].decode(errors="ignore") + "…"


def moment(text: str) -> str:
    """A time for people; text that is not a time as it is."""
    try:
        return f"{msgspec.convert(text, datetime).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (msgspec.ValidationError, OverflowError):
        return text


def _utc(text: str, option: str) -> str | None:
    """A time with an offset, in UTC; None for an empty text. Raises BadParameter."""
    if not text:
        return None
    try:
        when = msgspec.convert(text, datetime)
        if when.tzinfo is None:
            raise ValueError("it has no offset")
        return when.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is not an RFC 3339 time; use a form like 2026-01-31T12:00:00Z", param_hint=option
        ) from None


def _say(*lines: str) -> None:
    for line in lines:
        typer.echo(plain(line))
