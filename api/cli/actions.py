"""`mnemolog actions`: work items that agents share."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.text import Text

from api.cli.client import ApiClient
from api.cli.commands import AgentName, AsJson, EventName, Tags, Url, connect, names_in, text_of
from api.cli.listing import (
    Cursor,
    InProject,
    Limit,
    Reader,
    Since,
    Until,
    cell,
    changed,
    group,
    in_time,
    show_page,
    table,
)
from api.cli.output import Output, answering, plain
from ingest.ids import new_event_id

COLUMNS = ("status", "priority", "agent", "what")

ActionIds = Annotated[list[str], typer.Option("--requires", help="Ids of actions that come first; by comma.")]


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    actions = group("actions", "Work items that agents share: list, frontier, add, done.")
    actions.command("list", epilog="Example: mnemolog actions --project shop --open")(list_)
    actions.command(epilog="Example: mnemolog actions frontier --project shop")(frontier)
    actions.command(epilog='Example: mnemolog actions add "Give refunds a key" --project shop --priority 8')(add)
    actions.command(epilog='Example: mnemolog actions done act_128d8ab120f113729306 --result "merged"')(done)
    app.add_typer(actions)


def list_(
    project: InProject = "",
    still_open: Annotated[bool, typer.Option("--open", help="Only those that are still to be done.")] = False,
    since: Since = "",
    until: Until = "",
    limit: Limit = 50,
    cursor: Cursor = "",
    agent: Reader = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List a project's actions, newest first. Exits 1 when there is none."""
    only_open = "true" if still_open else None
    wanted = {"project": project, "limit": limit, "cursor": cursor, "open": only_open, **in_time(since, until)}
    output = Output(as_json)
    with answering(output), connect(url, agent) as client:
        _show(output, client, client.get("/v1/actions", wanted))


def frontier(
    project: Annotated[
        str | None, typer.Option("--project", "-p", help="Only of this project.", show_default="of all projects")
    ] = None,
    limit: Limit = 20,
    agent: Annotated[str, typer.Option("--agent", "-a", help="Leave out what others than this agent work on.")] = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List what can be done now, the most urgent first. Exits 1 when there is nothing."""
    output = Output(as_json)
    with answering(output), connect(url, agent) as client:
        page = client.get("/v1/frontier", {"project": project, "limit": limit})
        output.note(f"{page['open']:,} are still to be done; these can be done now:")
        items: list[dict[str, Any]] = [{**one, "edges": []} for one in page["items"]]
        show_page(output, client, page, map(_row, items), table(*COLUMNS))


def add(
    title: Annotated[str, typer.Argument(help="What is to be done.")],
    project: InProject = "",
    description: Annotated[str, typer.Option(help="More about it; `-` reads it from stdin.")] = "",
    priority: Annotated[float, typer.Option(help="The higher the more urgent.")] = 0,
    requires: ActionIds = [],  # noqa: B006 - typer copies it
    tags: Tags = [],  # noqa: B006
    assigned_to: Annotated[str, typer.Option(help="Agent who is to do it.")] = "",
    agent: AgentName = "",
    event_id: EventName = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Write down what is to be done."""
    body: dict[str, Any] = {
        "title": title,
        "project": project,
        "description": text_of(description),
        "priority": int(priority) if priority.is_integer() else priority,
        "requires": names_in(requires),
        "tags": names_in(tags),
        "assigned_to": assigned_to,
        "event_id": event_id,
    }
    output = Output(as_json)
    with answering(output), connect(url, agent) as client:
        changed(output, client.write("/v1/actions", body), "added")


def done(
    action_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the action.")],
    result: Annotated[str, typer.Option(help="What came of it; `-` reads it from stdin.")] = "",
    status: Annotated[str, typer.Option(help="done, cancelled, in_progress, ...")] = "done",
    agent: AgentName = "",
    event_id: EventName = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Say that an action is done, or in another state: what waited for it can be done then."""
    change = {"status": status, "event_id": event_id or new_event_id()}
    output = Output(as_json)
    with answering(output), connect(url, agent) as client:
        sent = {**change, **({"result": text_of(result)} if result else {})}
        changed(output, client.patch(f"/v1/actions/{quote(action_id, safe='')}", sent), status)


def _show(output: Output, client: ApiClient, page: Mapping[str, Any]) -> None:
    show_page(output, client, page, map(_row, page["items"]), table(*COLUMNS))


def _row(one: Mapping[str, Any]) -> Iterator[Text | str]:
    waits = [edge["target"] for edge in one["edges"] if edge["type"] in ("requires", "gated_by")]
    marks = [plain(one["id"]), f"after {', '.join(map(plain, waits))}" if waits else ""]
    yield cell(one["status"], 16)
    yield f"{one['priority']:g}"
    yield cell(one["assigned_to"] or one["agent_id"] or "-", 16)
    yield cell(one["title"]).append(f"\n{', '.join(filter(None, marks))}", style="dim")
