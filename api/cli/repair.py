"""`mnemolog dead-letters`: events that could not be applied; trying them again, or saying that nobody wants them.

`mnemolog reconcile`: log, documents and index compared, and what is safe repaired.
"""

import time
from typing import Annotated, Any, Literal

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from api.cli.client import ApiClient, ClientError
from api.cli.commands import AsJson, Url, connect
from api.cli.output import FAILED, USAGE, Output, answering, one_line, plain

POLL_S = 0.1
"""Between two looks at what became of a redrive; an idle worker takes up to a second to see it."""
PATH = "/v1/admin/dead-letters"
RECONCILE_PATH = "/v1/admin/reconcile"
RECONCILE_POLL_S = 0.3

Position = Annotated[str, typer.Argument(help="Where it is in the log: PARTITION:POSITION.")]
Code = Annotated[str, typer.Option("--code", help="All with this error code.")]
EventType = Annotated[str, typer.Option("--type", help="All events of this type.")]
Partition = Annotated[int | None, typer.Option("--partition", min=0, help="Only in this partition.")]
Agent = Annotated[str, typer.Option("--agent", "-a", help="Who says so.")]

letters = typer.Typer(help="Events that could not be applied: list, show, redrive, discard.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    app.add_typer(letters, name="dead-letters")
    app.command(epilog="Example: mnemolog reconcile --json")(reconcile)


@letters.command("list", epilog="Example: mnemolog dead-letters list --code newer_event_version")
def list_(
    state: Annotated[
        Literal["parked", "discarded"], typer.Option(help="Those to be applied, or the others.")
    ] = "parked",
    code: Code = "",
    event_type: EventType = "",
    partition: Partition = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200)] = 50,
    cursor: Annotated[str, typer.Option(help="Go on where an answer's `next` says.")] = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List them, in the order of the log. Exits 0 also when there is none."""
    output = Output(as_json)
    wanted = {
        "state": state,
        "code": code,
        "type": event_type,
        "partition": partition,
        "limit": limit,
        "cursor": cursor,
    }
    with answering(output), connect(url) as client:
        page = client.get(PATH, wanted)
    output.document(page)
    table = Table("position", "code", "type", "tries", "parked", "what", box=None, pad_edge=False, header_style="bold")
    for one in page["dead_letters"]:
        message = one["message"] if one["discarded"] is None else one["discarded"]["reason"]
        row = (one["position"], one["code"], one["type"], str(one["attempts"]), (one["parked_at"] or "")[:19], message)
        table.add_row(*(one_line(cell, 100) for cell in row))
    output.show(table)
    known: dict[str, int] = page["counts"] or {}
    counts = ", ".join(f"{count} {plain(name).replace('_', ' ')}" for name, count in known.items())
    notes = [f"ever: {counts}"] if counts else []
    notes += [f"more: --cursor {page['next']}"] if page["next"] else []
    if notes:
        output.note("; ".join(notes))


@letters.command(epilog="Example: mnemolog dead-letters show 3:1769860800000-0")
def show(position: Position, url: Url = None, as_json: AsJson = False) -> None:
    """Show one with its event and its error. Exits 1 when there is none."""
    output = Output(as_json)
    with answering(output), connect(url) as client:
        one = client.get(f"{PATH}/{position}")
    output.document(one)
    for name, value in one.items():
        if name != "event":
            output.line(Text(f"{name}: {plain(str(value))}"))
    output.line(Text(plain(msgspec.json.format(msgspec.json.encode(one["event"]), indent=2).decode())))


@letters.command(epilog="Example: mnemolog dead-letters redrive --code newer_event_version")
def redrive(
    position: Annotated[str, typer.Argument(help="Where it is in the log; else --code or --type.")] = "",
    code: Code = "",
    event_type: EventType = "",
    partition: Partition = None,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for the workers; 0 only asks them.")] = 30,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Have the workers apply them now. Exits 1 when one fails again, or is not tried in time."""
    output = Output(as_json)
    body = _selected(output, position, code, event_type, partition)
    with answering(output), connect(url) as client:
        requested = _all(client, "redrive", body)
        left = _await_tried(client, requested, wait) if wait else []
    failed = [one["position"] for one in left]
    output.document({"requested": requested, "left": left})
    output.line(
        Text(f"asked to redrive {len(requested)}" + (f"; {len(requested) - len(left)} applied" if wait else ""))
    )
    for one in left:
        state = "not tried yet" if one["redrive_requested"] else f"{one['code']}: {one['message']}"
        output.note(f"{one['position']}: {one_line(state)}")
    if failed:
        raise typer.Exit(FAILED)


@letters.command(epilog='Example: mnemolog dead-letters discard 3:1769860800000-0 --reason "of a test"')
def discard(
    position: Annotated[str, typer.Argument(help="Where it is in the log; else --code or --type.")] = "",
    reason: Annotated[str, typer.Option(help="Why nobody wants it applied.")] = "",
    code: Code = "",
    event_type: EventType = "",
    partition: Partition = None,
    erase: Annotated[
        bool, typer.Option("--erase", help="Erase from the log what it says; nothing undoes that.")
    ] = False,
    agent: Agent = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Discard them: they are not applied, by a rebuild neither. `redrive` undoes it, but for what was erased."""
    output = Output(as_json)
    body = _selected(output, position, code, event_type, partition)
    if not reason:
        output.error("say why: --reason")
        raise typer.Exit(USAGE)
    with answering(output), connect(url, agent) as client:
        done = _all(client, "discard", {**body, "reason": reason, "erase": erase})
    output.document({"discarded": done})
    output.line(Text(f"discarded {len(done)}" + (" and erased what they said" if erase else "")))


def _selected(output: Output, position: str, code: str, event_type: str, partition: int | None) -> dict[str, Any]:
    if bool(position) == bool(code or event_type):
        output.error("name one position, or a --code or a --type")
        raise typer.Exit(USAGE)
    body = {"position": position, "code": code, "type": event_type, "partition": partition}
    return {name: value for name, value in body.items() if value not in ("", None)}


def _all(client: ApiClient, what: str, body: dict[str, Any]) -> list[str]:
    """Have it done to all that are selected, however many requests that takes; returns their positions."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        done = client.post(f"{PATH}/{what}", body if cursor is None else {**body, "cursor": cursor})
        found += done["positions"]
        cursor = done["next"]
        if cursor is None:
            return found


def _await_tried(client: ApiClient, requested: list[str], wait_s: float) -> list[dict[str, Any]]:
    """Wait until all were tried; returns those that are still letters."""
    deadline = time.monotonic() + wait_s
    left: list[dict[str, Any]] = []
    for position in requested:
        while (one := _letter(client, position)) is not None:
            if not one["redrive_requested"] or time.monotonic() > deadline:
                left.append(one)
                break
            time.sleep(POLL_S)
    return left


def _letter(client: ApiClient, position: str) -> dict[str, Any] | None:
    try:
        return client.get(f"{PATH}/{position}")
    except ClientError as error:
        if error.status == 404:
            return None
        raise


def reconcile(
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for the workers; 0 only asks them.")] = 3600,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Compare log, documents and index, and repair what is safe. Exits 1 when a person has to do something."""
    output = Output(as_json)
    with answering(output), connect(url) as client:
        before = _report(client)
        client.post(RECONCILE_PATH, {})
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


def _report(client: ApiClient) -> dict[str, Any] | None:
    return client.get(RECONCILE_PATH)["report"]


def _finished(client: ApiClient, before: dict[str, Any] | None, wait_s: float) -> dict[str, Any] | None:
    """The report of a run that ended since; the one before when none does in time."""
    known, deadline = (before or {}).get("finished_at"), time.monotonic() + wait_s
    while time.monotonic() < deadline:
        report = _report(client)
        if report is not None and report["finished_at"] not in (None, known):
            return report
        time.sleep(RECONCILE_POLL_S)
    return before
