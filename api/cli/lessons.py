"""`mnemolog lessons`: what was learned; which of it speaks up before a tool; reinforcing and retiring."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.text import Text

from api.cli.client import ApiClient
from api.cli.commands import AgentName, AsJson, EventName, Url, connect, text_of, when
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

LessonId = Annotated[str, typer.Argument(metavar="ID", help="Id of the lesson.")]
_COLOURS = {"critical": "red", "warning": "yellow"}


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    lessons = group("lessons", "What was learned: list, match, reinforce, retire; `mnemolog lesson` states one.")
    lessons.command("list", epilog="Example: mnemolog lessons --project shop")(list_)
    lessons.command(epilog='Example: mnemolog lessons match Bash --preview "rm -rf build" --project shop')(match)
    lessons.command(epilog="Example: mnemolog lessons reinforce lsn_f168ba040fafdf237b61")(reinforce)
    lessons.command(epilog="Example: mnemolog lessons retire lsn_f168ba040fafdf237b61")(retire)
    app.add_typer(lessons)


def list_(
    project: InProject = "",
    retired: Annotated[bool, typer.Option("--retired", help="Also those that have faded.")] = False,
    since: Since = "",
    until: Until = "",
    limit: Limit = 50,
    cursor: Cursor = "",
    agent: Reader = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List a project's lessons, newest first. Exits 1 when there is none."""
    faded = "true" if retired else None
    wanted = {"project": project, "limit": limit, "cursor": cursor, "retired": faded, **in_time(since, until)}
    output = Output(as_json)
    with answering(output), connect(url, agent) as client:
        _show(output, client, client.get("/v1/lessons", wanted))


def match(
    tool: Annotated[str, typer.Argument(help="Name of the tool, such as Bash.")],
    preview: Annotated[str, typer.Option(help="What the tool is given; `-` reads it from stdin.")] = "",
    project: InProject = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100, help="At most so many.")] = 5,
    agent: Reader = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List the lessons that an agent is shown before it uses a tool. Exits 1 when there is none."""
    wanted = {"tool_name": tool, "preview": text_of(preview), "project": project, "limit": limit}
    output = Output(as_json)
    with answering(output), connect(url, agent) as client:
        _show(output, client, client.get("/v1/lessons/match", wanted))


def reinforce(
    lesson_id: LessonId, agent: AgentName = "", event_id: EventName = "", url: Url = None, as_json: AsJson = False
) -> None:
    """Say that a lesson proved right again."""
    output = Output(as_json)
    with answering(output), connect(url, agent) as client:
        path = f"/v1/lessons/{quote(lesson_id, safe='')}/reinforce?event_id={quote(event_id or new_event_id())}"
        changed(output, client.post(path, {}), "reinforced")


def retire(
    lesson_id: LessonId, agent: AgentName = "", event_id: EventName = "", url: Url = None, as_json: AsJson = False
) -> None:
    """Neither find a lesson any more nor show it before a tool; `mnemolog forget` deletes it."""
    output = Output(as_json)
    change: dict[str, Any] = {"active": False, "event_id": event_id or new_event_id()}
    with answering(output), connect(url, agent) as client:
        changed(output, client.patch(f"/v1/lessons/{quote(lesson_id, safe='')}", change), "retired")


def _show(output: Output, client: ApiClient, page: Mapping[str, Any]) -> None:
    show_page(output, client, page, map(_row, page["items"]), table("when", "sure", "agent", "what"))


def _row(one: Mapping[str, Any]) -> Iterator[Text | str]:
    yield when(one["occurred_at"], "%Y-%m-%d %H:%M")
    yield f"{one['confidence']:.0%}"
    yield cell(one["agent_id"] or "-", 16)
    told = Text()
    if severity := one["severity"]:
        told.append(f"{plain(severity)}: ", style=_COLOURS.get(severity, ""))
    told.append(cell(one["content"]))
    trigger = " ".join(filter(None, (one["trigger_tool"], one["trigger_pattern"] and f"/{one['trigger_pattern']}/")))
    marks = [plain(one["id"]), f"before {cell(trigger, 60)}" if trigger else ""]
    marks.append("" if one["active"] else "retired")
    yield told.append(f"\n{', '.join(filter(None, marks))}", style="dim")
