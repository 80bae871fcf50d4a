"""`mnemolog reconcile`: compare log, documents, listings and index now, and repair what is safe to repair."""

import time
from typing import Annotated, Any

import typer
from rich.text import Text

from api.cli.client import Client
from api.cli.commands import AsJson, Url, connect
from api.cli.output import FAILED, Output, answering, plain

POLL_S = 0.3
PATH = "/v1/admin/reconcile"


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command(epilog="Example: mnemolog reconcile --json")(reconcile)


def reconcile(
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for the workers; 0 only asks them.")] = 3600,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Compare log, documents and index, and repair what is safe. Exits 1 when a person has to do something."""
    output = Output(as_json)
    with answering(output), connect(url) as client:
        before = _report(client)
        client.post(PATH, {})
        report = _finished(client, before, wait) if wait else before
    output.document({"report": report})
    if report is None or (wait and report == before):
        output.note("it is not over; `mnemolog reconcile --wait 0 --json` shows how far it is")
        raise typer.Exit(FAILED if wait else 0)
    found = {name: count for name, count in report["found"].items() if count}
    documents = sum(one["documents"] for one in report["partitions"])
    counts = (
        ", ".join(f"{count} {plain(name).replace('_', ' ')}" for name, count in found.items()) or "nothing is wrong"
    )
    output.line(Text(f"looked at {documents:,} documents: {counts}"))
    for one in report["partitions"]:
        if one["not_compared"]:
            output.note(f"partition {one['partition']}: the index was not compared: {plain(one['not_compared'])}")
    for advice in report["advice"]:
        output.note(plain(advice))
    if report["advice"]:
        raise typer.Exit(FAILED)


def _report(client: Client) -> dict[str, Any] | None:
    return client.get(PATH)["report"]


def _finished(client: Client, before: dict[str, Any] | None, wait_s: float) -> dict[str, Any] | None:
    """The report of a run that ended since; the one before when none does in time."""
    known, deadline = (before or {}).get("finished_at"), time.monotonic() + wait_s
    while time.monotonic() < deadline:
        report = _report(client)
        if report is not None and report["finished_at"] not in (None, known):
            return report
        time.sleep(POLL_S)
    return before
