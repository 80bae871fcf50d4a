"""`mnemolog sessions`: which there are; one with its summary and its turns."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.console import RenderableType
from rich.text import Text

from api.cli.client import ApiClient, ClientError
from api.cli.commands import AsJson, Url, connect, when
from api.cli.listing import Cursor, Limit, Reader, Since, Until, cell, group, in_time, show_page, table
from api.cli.output import Output, answering, plain
from api.cli.show import headline_of, parts

OfProject = Annotated[
    str | None, typer.Option("--project", "-p", help="Only of this project.", show_default="of all projects")
]


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    sessions = group("sessions", "Sessions of agents: list them, or show one with its summary and turns.")
    sessions.command("list", epilog="Example: mnemolog sessions --project shop")(list_)
    sessions.command("show", epilog="Example: mnemolog sessions show s1 --project shop")(show)
    app.add_typer(sessions)


def list_(
    project: OfProject = None,
    since: Since = "",
    until: Until = "",
    limit: Limit = 50,
    cursor: Cursor = "",
    agent: Reader = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List sessions, the most recently active first. Exits 1 when there is none."""
    output = Output(as_json)
    wanted = {"project": project, "limit": limit, "cursor": cursor, **in_time(since, until)}
    with answering(output), connect(url, agent) as client:
        page = client.get("/v1/sessions", wanted)
        shown = table("active", "status", "turns", "project", "agent", "what")
        show_page(output, client, page, map(_row, page["items"]), shown)


def _row(one: Mapping[str, Any]) -> Iterator[Text | str]:
    yield when(one["updated_at"], "%Y-%m-%d %H:%M")
    yield one["status"]
    yield f"{one['observation_count']:,}"
    yield cell(one["project"] or "-", 32)
    yield cell(one["agent_id"] or "-", 16)
    yield cell(headline_of({"title": one["title"], "first_prompt": one["first_prompt"], "id": "-"}), 120).append(
        f"\n{plain(one['id'])}", style="dim"
    )


def show(
    session_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the session.")],
    project: OfProject = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="At most so many turns.")] = 200,
    cursor: Annotated[str, typer.Option(help="Go on with the turns where the answer before ended.")] = "",
    agent: Reader = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show a session: what it is, its summary if there is one, and its turns in order."""
    output, path = Output(as_json), f"/v1/sessions/{quote(session_id, safe='')}"
    with answering(output), connect(url, agent) as client:
        session = client.get(path, {"project": project})
        of_it = {"project": session["project"]}
        summary = _summary(client, path, of_it)
        turns = client.get(f"{path}/observations", {**of_it, "limit": limit, "cursor": cursor})
        output.document({"session": session, "summary": summary, "turns": turns})
        output.show(*parts(session))
        if summary is not None:
            output.show(Text("\nsummary", style="bold"), *_told(summary))
        output.show(Text("\nturns", style="bold"), _turns(turns["items"]))
        if note := turns.get("note"):
            output.note(plain(note))
        if turns["next"]:
            output.note(f"more: --cursor {turns['next']}")


def _summary(client: ApiClient, path: str, of_it: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        return client.get(f"{path}/summary", of_it)
    except ClientError as error:
        if error.status == 404:
            return None
        raise


def _told(summary: Mapping[str, Any]) -> Iterator[RenderableType]:
    """What was done, decided, and what remains."""
    yield Text(plain(summary["narrative"]))
    for name in ("decisions", "remaining"):
        for one in summary[name]:
            yield Text(f"- {name.removesuffix('s') if name == 'decisions' else name}: ", style="dim").append(
                plain(one), style="not dim"
            )


def _turns(items: list[dict[str, Any]]) -> RenderableType:
    listed = table("when", "kind", "what")
    for one in items:
        what = cell(headline_of(one)).append(f"  {plain(one['id'])}", style="dim")
        listed.add_row(when(one["occurred_at"], "%H:%M:%S"), cell(one["kind"], 16), what)
    return listed
