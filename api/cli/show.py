"""`mnemolog show`: any document by its id, in full; `sessions`; `confirm` and `feedback`: record what proved correct.

`mnemolog forget`: permanently delete documents, a session, or everything of a user or project, from every store.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
import typer
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from api.cli.client import ApiClient
from api.cli.errors import ClientError
from api.cli.output import Failed, Output, WrongCommand, one_line
from api.cli.rows import (
    AGENT_READS,
    ANY_PROJECT,
    EVENT_ID,
    PAGE,
    Do,
    Param,
    Reader,
    Values,
    Yes,
    add,
    add_rows,
    agreed,
    cell,
    fields_table,
    group,
    id_of,
    listing,
    names_in,
    on_server,
    table,
    text_option,
    when,
)
from ingest.kinds import COLLECTIONS, FORGETTABLE, KIND_NAMES
from ingest.nouns.feedback import Verdict

_TIMES = ("_at", "forget_after", "valid_until")
_FIRST = ("id", "project", "agent_id", "user_id", "session_id", "occurred_at")
_BODY = (
    "content", "context", "description", "narrative", "decisions", "remaining", "facts", "message", "result",
)  # fmt: skip
"""Shown below the other fields, a block each."""
_LEFT_OUT = frozenset({"headline", "title", "data", "subtitle", "event_id", "position", "source", "prompt_version"})
_INPUT, _OUTPUT = ("tool_input", "input", "prompt"), ("tool_output", "tool_response", "output", "error", "response")

DocumentId = Annotated[
    str, typer.Argument(metavar="ID", help="Id of a document (recall prints them), or of a session.")
]
OfProject = Annotated[
    str | None,
    typer.Option("--project", "-p", help="Project of the session, if several projects have one with that id."),
]
SessionProject = Annotated[
    str | None, typer.Option("--project", "-p", help="Only this project.", show_default="all projects")
]


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    add(app, show, "show mem_9e710a163bd72db5a7de")
    add_rows(app, [CONFIRM, FEEDBACK])
    add(app, forget, 'forget session s1 --project shop --reason "asked to"')
    sessions = group("sessions", "Agents' sessions: list them, or show one with its summary and turns.")
    add_rows(sessions, [SESSIONS])
    add(sessions, show_session, "sessions show s1 --project shop", "show")
    app.add_typer(sessions)


@on_server
def show(
    output: Output, client: ApiClient, document_id: DocumentId, project: OfProject = None, agent: Reader = ""
) -> None:
    """Show a document in full, with its author, time and sources. For a memory, also every version."""
    collection, versions = COLLECTIONS.get(document_id.partition("_")[0]), list[dict[str, Any]]()
    path = f"/v1/{collection or 'sessions'}/{quote(document_id, safe='')}"
    try:
        document = client.get(path, {} if collection else {"project": project})
    except ClientError as error:
        if collection or error.code != "not_found":
            raise
        kinds = ", ".join(f"{prefix}_" for prefix in COLLECTIONS)
        message = f"there is no session {document_id!r}; ids of documents begin with {kinds}"
        raise ClientError(error.code, message, status=404) from None
    if "is_latest" in document:
        versions = client.get(f"/v1/memories/{document['id']}/history")["items"]
    output.document({**document, "versions": versions} if versions else document)
    output.show(*parts(document))
    if len(versions) > 1:
        output.show(Text("\nversions", style="bold"), history_table(versions, str(document["id"])))


def _show_judged(output: Output, client: ApiClient, answer: Any, values: Values) -> None:
    verdict = values.get("verdict", "confirmed")
    judged = answer["judged" if "verdict" in values else "confirmed"]
    for name in judged:
        output.line(f"{verdict} {name}")
    for name in answer["unknown"]:
        output.note(f"{name} is no memory or lesson that this agent can judge")
    if not judged:
        raise Failed


_JUDGED = {
    "ids": Param(
        list[str],
        typer.Argument(..., metavar="ID...", help="Ids of memories and lessons; also comma-separated."),
        sent=names_in,
    ),
    "agent": AGENT_READS,
    "event_id": EVENT_ID,
}
CONFIRM = Do(
    "confirm", "POST /v1/confirm",
    "Mark memories or lessons as correct, which ranks them higher. Exits 1 if none of them exists.",
    _JUDGED, "confirm mem_9e710a163bd72db5a7de lsn_f168ba040fafdf237b61", _show_judged,
)  # fmt: skip
FEEDBACK = Do(
    "feedback", "POST /v1/feedback",
    "Judge memories or lessons that an agent was given. Exits 1 if it was given none of them.",
    {
        "verdict": Param(Verdict, typer.Argument(..., help="What you found.")),
        **_JUDGED,
        "note": text_option("Why."),
    },
    "feedback wrong mem_9e710a163bd72db5a7de --note 'The port is 9090.'", _show_judged,
)  # fmt: skip


def parts(document: Mapping[str, Any]) -> Iterator[RenderableType]:
    """A document for people: its headline, its fields, and its texts."""
    headline = headline_of(document)
    yield Text(headline, style="bold")
    others = [name for name in (*_FIRST, *document) if name not in _LEFT_OUT and name not in _BODY]
    fields = {_label(name): _field_text(name, document.get(name)) for name in others}
    yield fields_table({label: text for label, text in fields.items() if text != headline})
    for name in _BODY:
        if value := document.get(name):
            yield from _block(_label(name), value)
    data: dict[str, Any] = document.get("data") or {}
    named = dict.fromkeys(_INPUT, "input") | dict.fromkeys(_OUTPUT, "output") | {"prompt": "prompt"}
    if tool := data.get("tool_name"):
        yield from _block("tool", str(tool))
    for name in (*_INPUT, *_OUTPUT):
        if data.get(name):
            yield from _block(named[name], data[name])
    if rest := {name: value for name, value in data.items() if name not in named and name != "tool_name"}:
        yield from _block("data", rest)


def headline_of(document: Mapping[str, Any]) -> str:
    """What a document is about, in a line."""
    for name in ("headline", "title", "first_prompt", "content", "message"):
        if text := document.get(name):
            return " ".join(str(text).split())
    if "relation" in document:
        return f"{document['source']} {document['relation']} {document['target']}"
    return str(document["id"])


def history_table(versions: Sequence[Mapping[str, Any]], current: str = "") -> RenderableType:
    """Versions of a memory, with the current one in bold."""
    rows = table("version", "when", "agent", "what")
    for memory in versions:
        style = "bold" if memory["id"] == current else ""
        what = cell(memory["content"], style=style).append(f"\n{memory['id']}", style="not bold dim")
        version = f"{memory['version']}{' (newest)' if memory['is_latest'] else ''}"
        rows.add_row(version, when(memory["occurred_at"], "%Y-%m-%d %H:%M"), cell(memory["agent_id"], 24), what)
    return rows


def _label(name: str) -> str:
    return name.removesuffix("_id").replace("_", " ") if name != "id" else name


def _field_text(name: str, value: Any) -> str:
    """A field for people; an empty one is an empty text."""
    if value in (None, "", [], {}, False):
        return ""
    if isinstance(value, str):
        return when(value, "%Y-%m-%d %H:%M:%S") if name.endswith(_TIMES) else value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):  # pyright: ignore[reportUnknownVariableType]
        return ", ".join(value)  # pyright: ignore[reportUnknownArgumentType]
    return "yes" if value is True else msgspec.json.encode(value).decode()


def _block(name: str, value: Any) -> Iterator[RenderableType]:
    yield Text(f"\n{name}", style="bold")
    if isinstance(value, list):
        text = "\n".join(f"- {item}" for item in value)  # pyright: ignore[reportUnknownVariableType]
    elif isinstance(value, str):
        text = value
    else:
        text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    yield Padding(Text(text), (0, 0, 0, 2))


def _session_cells(session: Mapping[str, Any]) -> Iterator[Text | str]:
    yield when(session["updated_at"], "%Y-%m-%d %H:%M")
    yield session["status"]
    yield f"{session['observation_count']:,}"
    yield cell(session["project"] or "-", 32)
    yield cell(session["agent_id"] or "-", 16)
    headline = headline_of({"title": session["title"], "first_prompt": session["first_prompt"], "id": "-"})
    yield cell(headline, 120).append(f"\n{session['id']}", style="dim")


SESSIONS = Do(
    "list", "GET /v1/sessions", "List sessions, most recently active first. Exits 1 if the list is empty.",
    {"project": ANY_PROJECT, **PAGE},
    "sessions --project shop", listing(("active", "status", "turns", "project", "agent", "what"), _session_cells),
)  # fmt: skip


@on_server
def show_session(
    output: Output,
    client: ApiClient,
    session_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the session.")],
    project: SessionProject = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number of turns.")] = 200,
    cursor: Annotated[str, typer.Option(help="Continue the turns from this cursor.")] = "",
    agent: Reader = "",
) -> None:
    """Show a session: its fields, its summary if it has one, and its turns in order."""
    path = f"/v1/sessions/{quote(session_id, safe='')}"
    session = client.get(path, {"project": project})
    in_project = {"project": session["project"]}
    summary: dict[str, Any] | None = client.find(f"{path}/summary", in_project)
    turns = client.get(f"{path}/observations", {**in_project, "limit": limit, "cursor": cursor})
    output.document({"session": session, "summary": summary, "turns": turns})
    output.show(*parts(session))
    if summary is not None:
        output.show(Text("\nsummary", style="bold"), Text(summary["narrative"]))
        for name, label in (("decisions", "decision"), ("remaining", "remaining")):
            for text in summary[name]:
                output.show(Text(f"- {label}: ", style="dim").append(text, style="not dim"))
    rows = table("when", "kind", "what")
    for turn in turns["items"]:
        what = cell(headline_of(turn)).append(f"  {turn['id']}", style="dim")
        rows.add_row(when(turn["occurred_at"], "%H:%M:%S"), cell(turn["kind"], 16), what)
    output.show(Text("\nturns", style="bold"), rows)
    if note := turns.get("note"):
        output.note(note)
    if turns["next"]:
        output.note(f"more: --cursor {turns['next']}")


# --- forgetting

POLL_S = 0.3
SUBJECTS = ("session", "user", "project")

Names = Annotated[
    list[str],
    typer.Argument(
        metavar="ID... | session NAME | user NAME | project NAME",
        help="Ids of documents (also `memory ID`); or the subject to forget. '' is the project without a name.",
        show_default=False,
    ),
]


@on_server
def forget(
    output: Output,
    client: ApiClient,
    arguments: Names,
    project: OfProject = None,
    reason: Annotated[str, typer.Option(help="Reason, stored in the audit log.")] = "",
    agent: Reader = "",
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait until it is done; 0 does not wait.")] = 600,
    yes: Yes = False,
) -> None:
    """Permanently delete documents, a session, or everything of a user or project. Prints the receipt.

    Documents derived from a document are deleted with it. Exits 1 if it is not done in time, or if a search still finds
    something.
    """
    kind, names = arguments[0], arguments[1:]
    if kind not in SUBJECTS:
        is_kind = kind in KIND_NAMES.values()
        if is_kind and not names:
            raise WrongCommand(f"name a {kind}: mnemolog forget {kind} ID")
        _forget_documents(output, client, [id_of(kind, name) for name in names] if is_kind else arguments, reason, yes)
        return
    if len(names) != 1:
        raise WrongCommand(f"name one {kind}: mnemolog forget {kind} NAME")
    in_project = f" in project {project!r}" if project else ""
    agreed(output, f"Permanently delete everything of the {kind} {names[0]!r}{in_project} on {client.url}?", yes)
    subject = {"reason": reason, **({} if project is None else {"project": project})}
    try:
        receipt = client.post("/v1/forget", {"kind": kind, "subject": names[0], **subject})
    except ClientError as error:
        if kind != "session" or error.code != "forbidden":
            raise
        answer = client.delete(f"/v1/sessions/{quote(names[0], safe='')}", subject)
        output.document(answer)
        counts = _counts(answer["documents"])
        output.line(f"forgotten session {names[0]} ({counts}) at {answer['position']}")
        output.note("no receipt: receipts need an admin key")
        return
    deadline, path = time.monotonic() + wait, f"/v1/forget/{receipt['id']}"
    with output.waiting("forgetting") as tell:
        while receipt["status"] != "done" and time.monotonic() < deadline:
            tell(f"forgetting: {receipt['status']}" + (f", {receipt['error']}" if receipt["error"] else ""))
            time.sleep(POLL_S)
            receipt = client.get(path)
    output.document(receipt)
    _show_receipt(output, receipt)
    if (wait and receipt["status"] != "done") or (receipt["probe"] or {}).get("found"):
        raise Failed


def _forget_documents(output: Output, client: ApiClient, ids: list[str], reason: str, yes: bool) -> None:
    """Look up all documents before deleting the first."""
    paths: list[str] = []
    for document_id in ids:
        collection = FORGETTABLE.get(document_id.partition("_")[0])
        if collection is None:
            kinds = ", ".join(f"{prefix}_" for prefix in FORGETTABLE)
            raise WrongCommand(
                f"{document_id!r} is not a document id, which begins with {kinds}. For a session: mnemolog forget "
                f"session {document_id}"
            )
        paths.append(f"/v1/{collection}/{quote(document_id, safe='')}")
    for path in paths:
        output.note(one_line(headline_of(client.get(path))))
    agreed(output, f"Permanently delete {'this' if len(ids) == 1 else f'these {len(ids)}'}?", yes)
    answers = [client.delete(path, {"reason": reason}) for path in paths]
    for path, answer in zip(paths, answers, strict=True):
        client.find(path, {"after": answer["position"]})  # returns when reads no longer find it
        output.line(f"forgotten {answer['id']} at {answer['position']}")
    output.document({"forgotten": answers})


def _show_receipt(output: Output, receipt: Mapping[str, Any]) -> None:
    removed: Mapping[str, Any] = receipt["removed"] or {}
    probe: Mapping[str, Any] = receipt["probe"] or {}
    fields = {
        "receipt": receipt["id"],
        "status": receipt["status"] + (f": {receipt['error']}" if receipt["error"] else ""),
        "documents": _counts(removed.get("documents") or {}) or "none",
        **{name.replace("_", " "): str(value) for name, value in removed.items() if name != "documents" and value},
        "found afterward": f"{probe['found']} of {probe['documents']}, by {probe['queries']} queries" if probe else "",
    }
    output.show(fields_table(fields))
    if receipt["status"] != "done":
        output.note(f"it continues in the background; GET /v1/forget/{receipt['id']} shows the receipt")


def _counts(documents: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in documents.items() if count)
