"""`mnemolog memory`: the commands of agentd's `agent memory`, for its service and for ours.

A client of that REST API with the same flags, output and exit codes (0 done, 1 refused or unreachable, 2 wrong usage),
so that it can replace the other command line in scripts and prompts.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple, NoReturn
from urllib.parse import urlsplit

import httpx
import msgspec
import typer
from msgspec import Struct
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from api.cli.output import FAILED, USAGE
from api.cli.rows import (
    CONTEXT,
    AsJson,
    Param,
    Values,
    filled,
    names_in,
    option,
    options_of,
    text_option,
    values_of,
    with_options,
)
from ingest.errors import InvalidSetting, reason_of
from ingest.names import visible
from ingest.platform.addresses import LOOPBACK, client_key, proxy_options
from ingest.platform.clock import utc_text
from ingest.platform.settings import from_environment

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


class AgentdMatches(Struct):
    """The answer to a search."""

    memories: list[AgentdMemory]
    total: int


class AgentdPage(Struct):
    """The answer to a listing."""

    items: list[AgentdMemory]
    total: int
    limit: int
    offset: int


class AgentdDeletion(Struct):
    """The answer to a deletion."""

    deleted: bool


class AgentdHealth(Struct):
    """The state of a service."""

    status: str
    service: str = ""
    version: str = ""
    details: dict[str, Any] = {}


class Command(NamedTuple):
    """One command: its request, the struct of the answer, and the lines that show it. None is not sent."""

    name: str
    route: str
    help: str
    answer: type[Struct]
    params: Mapping[str, Param]
    lines: Callable[[Any, Values], Iterator[str]]


def register(app: typer.Typer) -> None:
    """Add the group to an application."""
    commands = typer.Typer(
        name="memory",
        help="The commands of agentd's `agent memory`; the service is at AGENTD_MEMORY_SERVICE_URL, "
        "by default on the host of MNEMOLOG_URL, at MNEMOLOG_AGENTD_PORT.",
        no_args_is_help=True,
    )

    commands.callback()(_remember_form)
    for row in COMMANDS:
        commands.command(row.name, help=row.help)(_command(row))
    app.add_typer(commands)


def _remember_form(context: typer.Context, as_json: AsJson = False) -> None:
    context.obj = as_json


def _command(row: Command) -> Callable[..., None]:
    """The row as a function whose signature typer reads."""

    def run(**given: Any) -> None:
        as_json = given.pop("as_json") | bool(given.pop("context").obj)
        values = values_of(row.params, given)
        answer = _ask(row, values)
        if as_json:
            fields: dict[str, Any] = msgspec.to_builtins(answer)
            for memory in fields.get("memories") or fields.get("items") or [fields]:
                if memory.get("owner", "") is None:
                    del memory["owner"]
            sys.stdout.write(msgspec.json.format(msgspec.json.encode(fields), indent=2).decode() + "\n")
        else:
            for line in row.lines(answer, values):
                typer.echo(visible(line))

    return with_options(run, **options_of(row.params), **CONTEXT, as_json=(AsJson, False))


def _ask(row: Command, values: Values) -> Any:
    """The decoded answer; exits without one."""
    method, path, rest = filled(row.route, {name: value for name, value in values.items() if value is not None})
    request: dict[str, Any] = {"params": rest} if method == "GET" else {"json": rest} if rest else {}
    try:
        client = _client()
    except InvalidSetting as error:
        _fail(str(error), USAGE)
    with client:
        try:
            response = client.request(method, path, **request)
            if response.status_code == 401:
                _fail(
                    f"the service at {client.base_url} requires an API key: set MNEMOLOG_KEY, or store one with "
                    "`mnemolog admin keys store`"
                )
            if not response.is_success:
                _fail(f"the service answered {response.status_code}: {response.text.strip()}")
            return msgspec.json.decode(response.content, type=row.answer)
        except httpx.TransportError as error:
            _fail(f"no memory service answers at {client.base_url}: {reason_of(error)}; {ADVICE}")
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
    typer.echo(f"error: {visible(message)}", err=True)
    raise typer.Exit(code)


def _health_lines(state: AgentdHealth, values: Values) -> Iterator[str]:
    yield f"Service: {state.service}"
    yield f"Status: {state.status}"
    yield f"Version: {state.version}"
    yield f"Vector store: {'healthy' if state.details.get('vector_store') else 'unhealthy'}"


def _matches_lines(answer: AgentdMatches, values: Values) -> Iterator[str]:
    yield f"Found {answer.total} {'memory' if answer.total == 1 else 'memories'}"
    for memory in answer.memories:
        yield from (RULE, f"ID: {memory.id}", f"[{memory.type}] {memory.content}")
        if memory.tags:
            yield f"Tags: {', '.join(memory.tags)}"
    yield RULE if answer.memories else "No memories match the query."


def _page_lines(page: AgentdPage, values: Values) -> Iterator[str]:
    """A line, then a table, which is printed here."""
    yield f"Showing {len(page.items)}/{page.total} memories (offset {page.offset})"
    if page.items:
        table = Table(box=box.SQUARE)
        for title in ("ID", "Type", "Content", "Created By", "Visibility", "Tags"):
            table.add_column(title, overflow="fold")
        for memory in page.items:
            tags, content = ", ".join(memory.tags), cut(memory.content)
            cells = (memory.id, memory.type, content, memory.created_by, memory.visibility, tags)
            table.add_row(*(Text(" ".join(cell.split())) for cell in cells))
        console = Console()
        (console if console.is_terminal else Console(width=WIDE)).print(table)


def _deletion_lines(answer: AgentdDeletion, values: Values) -> Iterator[str]:
    yield f"Memory {values['id']} {'deleted' if answer.deleted else 'not found'}."


def _memory_lines(*titles: str) -> Callable[[AgentdMemory, Values], Iterator[str]]:
    """Lines of a memory, below a title, which can name its id."""

    def lines(memory: AgentdMemory, values: Values) -> Iterator[str]:
        yield from (title.format(memory.id) for title in titles)
        yield from full(memory)

    return lines


def full(memory: AgentdMemory) -> list[str]:
    """A memory, one line per field, without empty optional fields."""
    fields = {
        "ID": memory.id,
        "Type": memory.type,
        "Content": memory.content,
        "Created by": memory.created_by,
        "Created at": moment(memory.created_at),
        "Visibility": memory.visibility,
    }
    optional = {
        "Shared with": ", ".join(memory.shared_with),
        "Tags": ", ".join(memory.tags),
        "Owner": memory.owner,
        "References": ", ".join(memory.references),
    }
    fields |= {label: text for label, text in optional.items() if text}
    return [f"  {label}: {text}" for label, text in fields.items()]


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


def _utc(option: str) -> Callable[[str], str | None]:
    """A reader of the time in an option: in UTC, None for an empty text. Raises BadParameter."""

    def read(text: str) -> str | None:
        try:
            when = msgspec.convert(text, datetime) if text else None
            if when is not None and when.tzinfo is None:
                raise ValueError("it has no offset")
            return when and utc_text(when)
        except (ValueError, OverflowError):
            message = f"{text!r} is not an RFC 3339 time; use a form like 2026-01-31T12:00:00Z"
            raise typer.BadParameter(message, param_hint=option) from None

    return read


ID = {"name": Param(str, typer.Argument(..., metavar="ID"), "id")}
LIST = text_option("Comma-separated.", sent=names_in)
KIND = option(MemoryKind | None, None, "Only of this type.", "--type", field="type", case_sensitive=False)
COMMANDS = (
    Command("health", "GET /health", "Show the state of the service.", AgentdHealth, {}, _health_lines),
    Command(
        "remember", "POST /memories", "Store a memory.", AgentdMemory,
        {
            "content": Param(str, typer.Argument(..., help="What to remember.")),
            "created_by": option(str, ..., "Who creates it."),
            "kind": option(
                MemoryKind, MemoryKind.INFORMATION, "Type of the memory.", "--type", field="type", case_sensitive=False
            ),
            "tags": LIST,
            "visibility": option(Level, Level.PUBLIC, "Who can find it.", case_sensitive=False),
            "share_with": LIST._replace(field="shared_with"),
            "references": LIST,
        },
        _memory_lines("Memory stored."),
    ),
    Command("recall", "GET /memories/{id}", "Show a memory.", AgentdMemory, ID, _memory_lines()),
    Command(
        "search", "POST /memories/search", "Find memories by meaning.", AgentdMatches,
        {
            "query": Param(str, typer.Argument(..., help="What to look for, in plain language.")),
            "as_actor": option(str | None, None, "The reader; also finds their own memories."),
            "kind": KIND,
            "tags": text_option("Comma-separated.", sent=lambda text: names_in(text) or None),
            "limit": Param(int, typer.Option(10, min=0)),
            "since": text_option(
                "Created at or after this time: 2026-01-31T12:00:00Z.", field="from", sent=_utc("--since")
            ),
            "until": text_option("Created at or before this time.", field="to", sent=_utc("--until")),
        },
        _matches_lines,
    ),
    Command("forget", "DELETE /memories/{id}", "Delete a memory.", AgentdDeletion, ID, _deletion_lines),
    Command(
        "list", "GET /memories", "List memories, newest first.", AgentdPage,
        {
            "kind": KIND,
            "tag": text_option("Any of these, comma-separated.", sent=lambda text: text or None),
            "created_by": text_option("Only memories created by this agent.", sent=lambda text: text or None),
            "visibility": option(Level | None, None, "Only with this visibility.", case_sensitive=False),
            "limit": Param(int, typer.Option(50, min=0)),
            "offset": Param(int, typer.Option(0, min=0)),
        },
        _page_lines,
    ),
    Command(
        "visibility", "PUT /memories/{id}/visibility", "Change who can find a memory.", AgentdMemory,
        {
            **ID,
            "level": Param(Level, typer.Argument(..., case_sensitive=False, help="Who can find it."), "visibility"),
            "share_with": option(
                str | None, None, "Agents a shared memory is shared with, comma-separated.", field="shared_with",
                sent=lambda text: None if text is None else names_in(text),
            ),
        },
        _memory_lines("Visibility of {} updated."),
    ),
)  # fmt: skip
