"""`mnemolog forget`: documents, a session, or everything of a user or a project, from every store."""

import time
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.text import Text

from api.cli.client import ApiClient, ClientError
from api.cli.commands import AsJson, Url, connect
from api.cli.listing import Reader, Yes, agreed, table
from api.cli.output import FAILED, USAGE, Output, answering, one_line, plain
from api.cli.show import COLLECTIONS, headline_of

POLL_S = 0.3
SUBJECTS = ("session", "user", "project")
FORGOTTEN_ALONE = {prefix: name for prefix, name in COLLECTIONS.items() if prefix != "sum"}
"""A summary goes with its session."""

Wanted = Annotated[
    list[str],
    typer.Argument(
        metavar="ID... | session NAME | user NAME | project NAME",
        help="Ids of documents; or whose documents. '' is the nameless project.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command(epilog='Example: mnemolog forget session s1 --project shop --reason "asked to"')(forget)


def forget(
    wanted: Wanted,
    project: Annotated[
        str | None, typer.Option("--project", "-p", help="Of a session: where several projects have one of that id.")
    ] = None,
    reason: Annotated[str, typer.Option(help="Why; the audit log tells it.")] = "",
    agent: Reader = "",
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait until it is done; 0 only asks.")] = 600,
    yes: Yes = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Forget documents, a session, or all of a user or project, for good, everywhere. Prints the receipt.

    With a document goes what was made of it. Exits 1 when it is not done in time, or a search still finds something.
    """
    output = Output(as_json)
    kind, names = wanted[0], wanted[1:]
    if kind in SUBJECTS and len(names) != 1:
        output.error(f"name one {kind}: mnemolog forget {kind} NAME")
        raise typer.Exit(USAGE)
    with answering(output), connect(url, agent) as client:
        if kind in SUBJECTS:
            _forget_subject(output, client, kind, names[0], project, reason, wait, yes)
        else:
            _forget_documents(output, client, wanted, reason, yes)


def _forget_documents(output: Output, client: ApiClient, ids: list[str], reason: str, yes: bool) -> None:
    """All are looked at before the first goes."""
    paths = [_path(output, one) for one in ids]
    for path in paths:
        output.note(one_line(headline_of(client.get(path))))
    agreed(output, f"Forget {'this' if len(ids) == 1 else f'these {len(ids)}'}, for good?", yes)
    answers = [client.delete(path, {"reason": reason}) for path in paths]
    for path, answer in zip(paths, answers, strict=True):
        _gone(client, path, answer["position"])
        output.line(Text(f"forgotten {plain(answer['id'])} at {answer['position']}"))
    output.document({"forgotten": answers})


def _path(output: Output, document_id: str) -> str:
    collection = FORGOTTEN_ALONE.get(document_id.partition("_")[0])
    if collection is None:
        kinds = ", ".join(f"{prefix}_" for prefix in FORGOTTEN_ALONE)
        output.error(
            f"{document_id!r} is no document: their ids begin with {kinds}. For a session: mnemolog forget session "
            f"{document_id}"
        )
        raise typer.Exit(USAGE)
    return f"/v1/{collection}/{quote(document_id, safe='')}"


def _gone(client: ApiClient, path: str, position: str) -> None:
    """Return when the document is not read any more; raises ClientError where that cannot be seen."""
    try:
        client.get(path, {"after": position})
    except ClientError as error:
        if error.status != 404:
            raise


def _forget_subject(
    output: Output,
    client: ApiClient,
    kind: str,
    name: str,
    project: str | None,
    reason: str,
    wait: float,
    yes: bool,
) -> None:
    place = f" of project {project!r}" if project else ""
    agreed(output, f"Forget everything of the {kind} {name!r}{place} on {client.url}, for good?", yes)
    body = {"kind": kind, "subject": name, "reason": reason, **({} if project is None else {"project": project})}
    try:
        receipt = client.post("/v1/forget", body)
    except ClientError as error:
        if kind != "session" or error.code != "forbidden":
            raise
        _forget_session(output, client, name, project, reason)
        return
    receipt = _done(output, client, receipt, wait)
    output.document(receipt)
    _show_receipt(output, receipt)
    if (wait and receipt["status"] != "done") or (receipt["probe"] or {}).get("found"):
        raise typer.Exit(FAILED)


def _forget_session(output: Output, client: ApiClient, name: str, project: str | None, reason: str) -> None:
    """What a key may do that is no admin's: without a receipt."""
    answer = client.delete(f"/v1/sessions/{quote(name, safe='')}", {"project": project, "reason": reason})
    output.document(answer)
    counts = _counts(answer["documents"])
    output.line(Text(plain(f"forgotten session {name} ({counts}) at {answer['position']}")))
    output.note("without a receipt: those are for admins")


def _done(output: Output, client: ApiClient, receipt: dict[str, Any], wait_s: float) -> dict[str, Any]:
    """The receipt when it is done, or as it is when the time is over."""
    deadline, path = time.monotonic() + wait_s, f"/v1/forget/{receipt['id']}"
    with output.waiting("forgetting") as tell:
        while receipt["status"] != "done" and time.monotonic() < deadline:
            tell(f"forgetting: {receipt['status']}" + (f", {receipt['error']}" if receipt["error"] else ""))
            time.sleep(POLL_S)
            receipt = client.get(path)
    return receipt


def _show_receipt(output: Output, receipt: Mapping[str, Any]) -> None:
    shown = table("", "")
    shown.show_header = False
    shown.columns[0].style = "dim"
    removed: Mapping[str, Any] = receipt["removed"] or {}
    probe: Mapping[str, Any] = receipt["probe"] or {}
    told = {
        "receipt": receipt["id"],
        "status": receipt["status"] + (f": {receipt['error']}" if receipt["error"] else ""),
        "documents": _counts(removed.get("documents") or {}) or "none",
        **{name.replace("_", " "): str(value) for name, value in removed.items() if name != "documents" and value},
        "found afterwards": f"{probe['found']} of {probe['documents']}, by {probe['queries']} queries" if probe else "",
    }
    for name, value in told.items():
        if value:
            shown.add_row(name, Text(plain(value)))
    output.show(shown)
    if receipt["status"] != "done":
        output.note(f"it goes on by itself; GET /v1/forget/{receipt['id']} shows the receipt")


def _counts(documents: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {plain(name).replace('_', ' ')}" for name, count in documents.items() if count)
