"""`mnemolog admin dead-letters`: events that could not be applied; retry or discard them. `reconcile`: compare log,
documents and index, and repair what is safe. `rebuild`: new documents or embeddings from the log, beside the current
ones.
"""

import time
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
import typer
from rich.text import Text

from api.cli.client import ApiClient
from api.cli.output import FAILED, Failed, Output, WrongCommand, one_line
from api.cli.rows import Do, Param, Values, add, add_rows, on_server, option, table, text_option

PATH, RECONCILE_PATH, REBUILDS = "/v1/admin/dead-letters", "/v1/admin/reconcile", "/v1/admin/rebuilds"
POLL_S = 0.1
"""Between two reads of a redriven letter; an idle worker takes up to a second to try it."""
SLOW_POLL_S = 0.3
"""The same for a reconciliation or a rebuild."""
CANCEL_WAIT_S = 10.0
ENDED = ("switched", "rolled_back", "cancelled", "failed")

Code = Annotated[str, typer.Option("--code", help="All with this error code.")]
EventType = Annotated[str, typer.Option("--type", help="All events of this type.")]
Partition = Annotated[int | None, typer.Option("--partition", min=0, help="Only in this partition.")]
Which = Annotated[str, typer.Argument(metavar="[ID]", help="Id of the rebuild; default: the newest.")]
WorkersWait = Annotated[float, typer.Option(min=0, help="Seconds to wait for the workers; 0 does not wait.")]
RebuildWait = Annotated[float, typer.Option(min=0, help="Seconds to wait for the rebuild; 0 does not wait.")]

letters = typer.Typer(help="Events that could not be applied: list, show, redrive, discard.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    add_rows(letters, LETTERS)
    add(letters, redrive, "dead-letters redrive --code newer_event_version")
    add(letters, discard, 'dead-letters discard 3:1769860800000-0 --reason "of a test"')
    app.add_typer(letters, name="dead-letters")
    add(app, reconcile, "reconcile --json")
    group = typer.Typer(invoke_without_command=True)
    group.callback(epilog="Example: mnemolog admin rebuild --partition 3 --manual")(rebuild)
    add(group, status, "rebuild status --json")
    add(group, switch, "rebuild switch --force")
    add(group, rollback, "rebuild rollback")
    add(group, cancel, "rebuild cancel")
    app.add_typer(group, name="rebuild")


# --- dead letters


def _show_letters(output: Output, client: ApiClient, page: Any, values: Values) -> None:
    rows = table("position", "code", "type", "tries", "parked", "what")
    for letter in page["dead_letters"]:
        message = letter["message"] if letter["discarded"] is None else letter["discarded"]["reason"]
        parked = (letter["parked_at"] or "")[:19]
        cells = (letter["position"], letter["code"], letter["type"], str(letter["attempts"]), parked, message)
        rows.add_row(*(one_line(cell, 100) for cell in cells))
    output.show(rows)
    totals: dict[str, int] = page["counts"] or {}
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in totals.items())
    notes = [f"ever: {counts}"] if counts else []
    notes += [f"more: --cursor {page['next']}"] if page["next"] else []
    if notes:
        output.note("; ".join(notes))


def _show_letter(output: Output, client: ApiClient, letter: Any, values: Values) -> None:
    for name, value in letter.items():
        if name != "event":
            output.line(f"{name}: {value}")
    output.line(msgspec.json.format(msgspec.json.encode(letter["event"]), indent=2).decode())


LETTERS = (
    Do(
        "list", f"GET {PATH}", "List dead letters in log order. Exits 0 even if the list is empty.",
        {
            "state": option(Literal["parked", "discarded"], "parked", "Parked letters wait to be applied."),
            "code": text_option("All with this error code.", "--code"),
            "event_type": text_option("All events of this type.", "--type", field="type"),
            "partition": option(int | None, None, "Only in this partition.", "--partition", min=0),
            "limit": Param(int, typer.Option(50, "--limit", "-n", min=1, max=200)),
            "cursor": text_option("Continue from this cursor."),
        },
        "dead-letters list --code newer_event_version", _show_letters,
    ),
    Do(
        "show", f"GET {PATH}/{{position}}", "Show one with its event and its error. Exits 1 if it does not exist.",
        {"position": Param(str, typer.Argument(..., help="Its position in the log: PARTITION:POSITION."))},
        "dead-letters show 3:1769860800000-0", _show_letter,
    ),
)  # fmt: skip
OrPosition = Annotated[str, typer.Argument(help="Its position in the log; otherwise use --code or --type.")]


@on_server
def redrive(
    output: Output,
    client: ApiClient,
    position: OrPosition = "",
    code: Code = "",
    event_type: EventType = "",
    partition: Partition = None,
    wait: WorkersWait = 30,
) -> None:
    """Have the workers apply them now. Exits 1 if one fails again, or is not tried in time."""
    requested = _all(client, "redrive", _selected(position, code, event_type, partition))
    # after this time, letters that were not tried yet are reported with the others
    deadline = time.monotonic() + wait
    failed = [letter for name in requested if (letter := _tried(client, name, deadline))] if wait else []
    output.document({"requested": requested, "left": failed})
    applied = f"; {len(requested) - len(failed)} applied" if wait else ""
    output.line(f"asked to redrive {len(requested)}{applied}")
    for letter in failed:
        state = "not tried yet" if letter["redrive_requested"] else f"{letter['code']}: {letter['message']}"
        output.note(f"{letter['position']}: {one_line(state)}")
    if failed:
        raise Failed


@on_server
def discard(
    output: Output,
    client: ApiClient,
    position: OrPosition = "",
    reason: Annotated[str, typer.Option(help="Why it should not be applied.")] = "",
    code: Code = "",
    event_type: EventType = "",
    partition: Partition = None,
    erase: Annotated[
        bool, typer.Option("--erase", help="Erase its content from the log; this cannot be undone.")
    ] = False,
    agent: Annotated[str, typer.Option("--agent", "-a", help="The writing agent.")] = "",
) -> None:
    """Discard them: they are never applied, not even by a rebuild. `redrive` undoes it, unless they were erased."""
    body = _selected(position, code, event_type, partition)
    if not reason:
        raise WrongCommand("say why: --reason")
    positions = _all(client, "discard", {**body, "reason": reason, "erase": erase})
    output.document({"discarded": positions})
    output.line(f"discarded {len(positions)}" + (" and erased their content" if erase else ""))


def _selected(position: str, code: str, event_type: str, partition: int | None) -> dict[str, Any]:
    if bool(position) == bool(code or event_type):
        raise WrongCommand("name one position, or a --code or a --type")
    body = {"position": position, "code": code, "type": event_type, "partition": partition}
    return {name: value for name, value in body.items() if value not in ("", None)}


def _all(client: ApiClient, what: str, body: dict[str, Any]) -> list[str]:
    """Do it with all of them, a page at a time; returns their positions."""
    positions: list[str] = []
    page: dict[str, Any] = {"next": ""}
    while page["next"] is not None:
        page = client.post(f"{PATH}/{what}", {**body, **({"cursor": page["next"]} if page["next"] else {})})
        positions += page["positions"]
    return positions


def _tried(client: ApiClient, position: str, deadline: float) -> dict[str, Any] | None:
    """The dead letter after a worker tried it, or at the deadline; None if it was applied."""
    while True:
        letter: dict[str, Any] | None = client.find(f"{PATH}/{position}")
        if letter is None or not letter["redrive_requested"] or time.monotonic() > deadline:
            return letter
        time.sleep(POLL_S)


# --- reconciling


@on_server
def reconcile(output: Output, client: ApiClient, wait: WorkersWait = 3600) -> None:
    """Compare log, documents and index, and repair what is safe. Exits 1 if something needs manual action."""
    before: dict[str, Any] | None = client.get(RECONCILE_PATH)["report"]
    report = before
    client.post(RECONCILE_PATH, {})
    previous, deadline = (before or {}).get("finished_at"), time.monotonic() + wait
    while time.monotonic() < deadline:
        newest = client.get(RECONCILE_PATH)["report"]
        if newest is not None and newest["finished_at"] not in (None, previous):
            report = newest
            break
        time.sleep(SLOW_POLL_S)
    output.document({"report": report})
    if report is None or (wait and report == before):
        output.note("still running; `mnemolog admin reconcile --wait 0 --json` shows its progress")
        raise typer.Exit(FAILED if wait else 0)
    documents = sum(partition["documents"] for partition in report["partitions"])
    differences = [f"{count} {name.replace('_', ' ')}" for name, count in report["found"].items() if count]
    output.line(f"compared {documents:,} documents: {', '.join(differences) or 'no problems found'}")
    for partition in report["partitions"]:
        if partition["not_compared"]:
            reason = partition["not_compared"]
            output.note(f"partition {partition['partition']} was not compared: {reason}")
    for advice in report["advice"]:
        output.note(advice)
    if report["advice"]:
        raise Failed


# --- rebuilds


@on_server
def rebuild(
    output: Output,
    client: ApiClient,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition; default: all.")] = None,
    embeddings: Annotated[
        bool, typer.Option("--embeddings", help="Rebuild vectors with the configured embedder, not documents.")
    ] = False,
    embedder: Annotated[
        str, typer.Option(metavar="SPEC", help="Embedder for the new vectors, as in MNEMOLOG_EMBEDDER.")
    ] = "",
    manual: Annotated[
        bool, typer.Option("--manual", help="Compare, then wait for `mnemolog admin rebuild switch`.")
    ] = False,
    wait: RebuildWait = 3600,
) -> None:
    """Rebuild documents and index from the log in the background, compare, and switch.

    Or change the embedder: compute all vectors with another one, compare search results, and switch.
    """
    order: dict[str, Any] = {"switch": "manual" if manual else "auto"}
    order |= {} if partition is None else {"partitions": [partition]}
    order |= {"what": "embeddings"} if embeddings else {}
    order |= {"embedder": embedder} if embedder else {}
    name = client.post(REBUILDS, order)["id"]
    _finish(output, client, name, (*ENDED, "ready"), wait, "ready" if manual else "switched")


@on_server
def status(output: Output, client: ApiClient, name: Which = "") -> None:
    """Show a rebuild's progress, the results of its canaries, and what it waits for."""
    _show_rebuild(output, client.get(f"{REBUILDS}/{name}") if name else _newest(output, client))


@on_server
def switch(
    output: Output,
    client: ApiClient,
    name: Which = "",
    force: Annotated[bool, typer.Option("--force", help="Switch even if the canaries differ.")] = False,
    wait: RebuildWait = 600,
) -> None:
    """Switch reads to the rebuilt documents or vectors."""
    _order(output, client, "switch", "switched", name, wait, {"force": force})


@on_server
def rollback(output: Output, client: ApiClient, name: Which = "", wait: RebuildWait = 600) -> None:
    """Switch reads back to the state before a rebuild, including later writes."""
    _order(output, client, "rollback", "rolled_back", name, wait)


@on_server
def cancel(output: Output, client: ApiClient, name: Which = "") -> None:
    """Cancel a rebuild that has not begun to switch; its documents are deleted, its vectors stay cached."""
    _order(output, client, "cancel", "cancelled", name, CANCEL_WAIT_S)


def _order(
    output: Output, client: ApiClient, verb: str, goal: str, name: str, wait_s: float, body: Mapping[str, Any] = {}
) -> None:
    name = name or _newest(output, client)["id"]
    client.post(f"{REBUILDS}/{name}/{verb}", body)
    _finish(output, client, name, (goal,), wait_s, goal)


def _newest(output: Output, client: ApiClient) -> dict[str, Any]:
    rebuilds: list[dict[str, Any]] = client.get(REBUILDS)["rebuilds"]
    if not rebuilds:
        output.error("there is no rebuild")
        raise Failed
    return rebuilds[0]


def _finish(output: Output, client: ApiClient, name: str, states: tuple[str, ...], wait_s: float, goal: str) -> None:
    """Wait until the rebuild is in one of the states, and show it; exit 1 if it is not in `goal` then."""
    deadline = time.monotonic() + wait_s
    with output.progress() as bar:
        task = bar.add_task("rebuilding", total=None)
        while True:
            current = client.get(f"{REBUILDS}/{name}")
            remaining = "" if not current["estimate_s"] else f", about {current['estimate_s']:.0f} s left"
            description = f"{current['state']}{remaining}"
            bar.update(task, completed=current["done"], total=current["total"] or None, description=description)
            if current["state"] in (*states, "failed") or time.monotonic() > deadline:
                break
            time.sleep(SLOW_POLL_S)
    _show_rebuild(output, current)
    if wait_s and current["state"] != goal:
        raise Failed


def _show_rebuild(output: Output, current: dict[str, Any]) -> None:
    output.document(current)
    unit = "entries" if current["model"] is None else f"documents by {current['model']}"
    progress = f"{current['done']:,} of {current['total']:,} {unit}, {current['rate']:,.0f} per second"
    output.line(f"rebuild {current['id']} is {current['state']}: {progress}")
    if current["why"]:
        output.line(current["why"])
    if current["can_roll_back_until"]:
        output.line(f"can be rolled back until {current['can_roll_back_until']}")
    canaries = current["canaries"]
    if canaries and canaries["said"] != current["why"]:
        output.line(canaries["said"])
    if canaries and canaries["differences"]:
        rows = table("partition", "what", "name", "how")
        for difference in canaries["differences"]:
            name, how = Text(difference["name"]), Text(difference["said"])
            rows.add_row(str(difference["partition"]), difference["what"], name, how)
        output.show(rows)
