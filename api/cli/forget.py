"""`mnemolog forget`: permanently delete documents, a session, or everything of a user or project, from every store."""

import time
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.text import Text

from api.cli.client import ApiClient, ClientError
from api.cli.output import FAILED, Output, WrongCommand, one_line, plain
from api.cli.rows import Reader, Yes, agreed, fields_table, on_server
from api.cli.show import COLLECTIONS, headline_of

POLL_S = 0.3
SUBJECTS = ("session", "user", "project")
FORGOTTEN_ALONE = {prefix: name for prefix, name in COLLECTIONS.items() if prefix != "sum"}
"""A summary goes with its session."""

Names = Annotated[
    list[str],
    typer.Argument(
        metavar="ID... | session NAME | user NAME | project NAME",
        help="Ids of documents; or the subject to forget. '' is the project without a name.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command(epilog='Example: mnemolog forget session s1 --project shop --reason "asked to"')(forget)


@on_server
def forget(
    output: Output,
    client: ApiClient,
    arguments: Names,
    project: Annotated[
        str | None,
        typer.Option("--project", "-p", help="Project of the session, if several projects have one with that id."),
    ] = None,
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
        _forget_documents(output, client, arguments, reason, yes)
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
        output.line(Text(plain(f"forgotten session {names[0]} ({counts}) at {answer['position']}")))
        output.note("no receipt: receipts need an admin key")
        return
    deadline, path = time.monotonic() + wait, f"/v1/forget/{receipt['id']}"
    with output.waiting("forgetting") as show:
        while receipt["status"] != "done" and time.monotonic() < deadline:
            show(f"forgetting: {receipt['status']}" + (f", {receipt['error']}" if receipt["error"] else ""))
            time.sleep(POLL_S)
            receipt = client.get(path)
    output.document(receipt)
    _show_receipt(output, receipt)
    if (wait and receipt["status"] != "done") or (receipt["probe"] or {}).get("found"):
        raise typer.Exit(FAILED)


def _forget_documents(output: Output, client: ApiClient, ids: list[str], reason: str, yes: bool) -> None:
    """Look up all documents before deleting the first."""
    paths: list[str] = []
    for document_id in ids:
        collection = FORGOTTEN_ALONE.get(document_id.partition("_")[0])
        if collection is None:
            kinds = ", ".join(f"{prefix}_" for prefix in FORGOTTEN_ALONE)
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
        try:  # returns when reads no longer find it
            client.get(path, {"after": answer["position"]})
        except ClientError as error:
            if error.status != 404:
                raise
        output.line(Text(f"forgotten {plain(answer['id'])} at {answer['position']}"))
    output.document({"forgotten": answers})


def _show_receipt(output: Output, receipt: Mapping[str, Any]) -> None:
    removed: Mapping[str, Any] = receipt["removed"] or {}
    probe: Mapping[str, Any] = receipt["probe"] or {}
    fields = {
        "receipt": receipt["id"],
        "status": receipt["status"] + (f": {receipt['error']}" if receipt["error"] else ""),
        "documents": _counts(removed.get("documents") or {}) or "none",
        **{name.replace("_", " "): str(value) for name, value in removed.items() if name != "documents" and value},
        "found afterwards": f"{probe['found']} of {probe['documents']}, by {probe['queries']} queries" if probe else "",
    }
    output.show(fields_table(fields))
    if receipt["status"] != "done":
        output.note(f"it continues in the background; GET /v1/forget/{receipt['id']} shows the receipt")


def _counts(documents: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {plain(name).replace('_', ' ')}" for name, count in documents.items() if count)
