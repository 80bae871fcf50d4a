"""`mnemolog show`: any document by its id, whole; `mnemolog confirm`: say which of them proved right."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
import typer
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from api.cli.client import ApiClient, ClientError
from api.cli.commands import AsJson, EventName, Url, connect, names_in, when
from api.cli.listing import Reader, cell, table
from api.cli.output import FAILED, Output, answering, plain

COLLECTIONS = {
    "obs": "observations",
    "mem": "memories",
    "lsn": "lessons",
    "act": "actions",
    "rel": "relations",
    "cmt": "commits",
    "sum": "summaries",
}
"""Where documents are found whose ids begin so; a session has an id that an agent gave it."""
_TIMES = ("_at", "forget_after")
_FIRST = ("id", "project", "agent_id", "user_id", "session_id", "occurred_at")
_BODY = (
    "content", "context", "description", "narrative", "decisions", "remaining", "facts", "message", "result",
)  # fmt: skip
"""What is told below the fields, a block each."""
_LEFT_OUT = frozenset({"headline", "title", "data", "subtitle", "event_id", "position", "source", "prompt_version"})
_INPUT, _OUTPUT = ("tool_input", "input", "prompt"), ("tool_output", "tool_response", "output", "error", "response")

Wanted = Annotated[str, typer.Argument(metavar="ID", help="Id of a document (recall prints them), or of a session.")]
OfProject = Annotated[
    str | None, typer.Option("--project", "-p", help="Of a session: its project, where several have one of that id.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    app.command(epilog="Example: mnemolog show mem_9e710a163bd72db5a7de")(show)
    app.command(epilog="Example: mnemolog confirm mem_9e710a163bd72db5a7de lsn_f168ba040fafdf237b61")(confirm)


def show(
    document_id: Wanted, project: OfProject = None, agent: Reader = "", url: Url = None, as_json: AsJson = False
) -> None:
    """Show a document, whole: what it says, who said it when, what it was made of. Of a memory also every version."""
    output = Output(as_json)
    with answering(output), connect(url, agent) as client:
        document = _found(client, document_id, project)
        versions = _versions(client, document_id) if "is_latest" in document else []
        output.document({**document, "versions": versions} if versions else document)
        output.show(*parts(document), *_history(document, versions))


def confirm(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of memories and lessons; also by comma.")],
    agent: Reader = "",
    event_id: EventName = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Say that memories and lessons proved right: they count for more from then on. Exits 1 when it knows none."""
    output = Output(as_json)
    body = {"ids": names_in(ids), **({"event_id": event_id} if event_id else {})}
    with answering(output), connect(url, agent) as client:
        answer = client.write("/v1/confirm", body)
        output.document(answer)
        for one in answer["confirmed"]:
            output.line(Text(f"confirmed {plain(one)}"))
        for one in answer["unknown"]:
            output.note(f"not a memory or lesson: {plain(one)}")
        if not answer["confirmed"]:
            raise typer.Exit(FAILED)


def _found(client: ApiClient, document_id: str, project: str | None) -> dict[str, Any]:
    """The document, else the session of that id."""
    collection = COLLECTIONS.get(document_id.partition("_")[0])
    if collection is not None:
        return client.get(f"/v1/{collection}/{quote(document_id, safe='')}")
    try:
        return client.get(f"/v1/sessions/{quote(document_id, safe='')}", {"project": project})
    except ClientError as error:
        if error.code != "not_found":
            raise
        kinds = ", ".join(f"{prefix}_" for prefix in COLLECTIONS)
        message = f"there is no session {document_id!r}; ids of documents begin with {kinds}"
        raise ClientError(error.code, message, status=404) from None


def _versions(client: ApiClient, document_id: str) -> list[dict[str, Any]]:
    return client.get(f"/v1/memories/{quote(document_id, safe='')}/history")["items"]


def parts(document: Mapping[str, Any]) -> Iterator[RenderableType]:
    """A document for people: what it is in a line, its fields, and what it says."""
    headline = headline_of(document)
    yield Text(plain(headline), style="bold")
    fields = table("", "")
    fields.show_header = False
    fields.columns[0].style = "dim"
    for name in (*_FIRST, *(name for name in document if name not in _FIRST)):
        told = "" if name in _LEFT_OUT or name in _BODY else _told(name, document.get(name))
        if told not in ("", headline):
            fields.add_row(_label(name), Text(plain(told)))
    yield fields
    for name in _BODY:
        if value := document.get(name):
            yield from _block(_label(name), value)
    yield from _data(document.get("data") or {})


def headline_of(document: Mapping[str, Any]) -> str:
    """What a document is about, in a line."""
    for name in ("headline", "title", "first_prompt", "content", "message"):
        if found := document.get(name):
            return " ".join(str(found).split())
    if "relation" in document:
        return f"{document['source']} {document['relation']} {document['target']}"
    return str(document["id"])


def _history(document: Mapping[str, Any], versions: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    """The versions of a memory that has several, oldest first."""
    if len(versions) > 1:
        yield Text("\nversions", style="bold")
        yield history_table(versions, str(document["id"]))


def history_table(versions: Sequence[Mapping[str, Any]], shown: str = "") -> RenderableType:
    """Versions of a memory, the one that is shown in bold."""
    listed = table("version", "when", "agent", "what")
    for one in versions:
        style = "bold" if one["id"] == shown else ""
        what = cell(one["content"], style=style).append(f"\n{plain(one['id'])}", style="not bold dim")
        at = when(one["occurred_at"], "%Y-%m-%d %H:%M")
        listed.add_row(
            f"{one['version']}{' (newest)' if one['is_latest'] else ''}", at, cell(one["agent_id"], 24), what
        )
    return listed


def _label(name: str) -> str:
    return name.removesuffix("_id").replace("_", " ") if name != "id" else name


def _told(name: str, value: Any) -> str:
    """A field for people; nothing of what is empty."""
    if value in (None, "", [], {}, False):
        return ""
    if isinstance(value, str):
        return when(value, "%Y-%m-%d %H:%M:%S") if name.endswith(_TIMES) else value
    if isinstance(value, list) and all(isinstance(one, str) for one in value):  # pyright: ignore[reportUnknownVariableType]
        return ", ".join(value)  # pyright: ignore[reportUnknownArgumentType]
    return "yes" if value is True else msgspec.json.encode(value).decode()


def _data(data: Mapping[str, Any]) -> Iterator[RenderableType]:
    """What a tool was given and what it answered, then whatever else was sent."""
    named = dict.fromkeys(_INPUT, "input") | dict.fromkeys(_OUTPUT, "output")
    if tool := data.get("tool_name"):
        yield from _block("tool", str(tool))
    for name in (*_INPUT, *_OUTPUT):
        if data.get(name):
            yield from _block(named[name] if name != "prompt" else name, data[name])
    rest = {name: value for name, value in data.items() if name not in named and name != "tool_name"}
    if rest:
        yield from _block("data", rest)


def _block(name: str, value: Any) -> Iterator[RenderableType]:
    yield Text(f"\n{name}", style="bold")
    if isinstance(value, list):
        told = "\n".join(f"- {one}" for one in value)  # pyright: ignore[reportUnknownVariableType]
    elif isinstance(value, str):
        told = value
    else:
        told = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    yield Padding(Text(plain(told)), (0, 0, 0, 2))
