"""`mnemolog memories`: a project's memories, the versions of one, and changing one."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal
from urllib.parse import quote

import typer
from rich.text import Text

from api.cli.commands import AgentName, AsJson, EventName, Tags, Url, connect, names_in, text_of, when
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
from api.cli.output import USAGE, Output, answering, plain
from api.cli.show import history_table

MemoryId = Annotated[str, typer.Argument(metavar="ID", help="Id of the memory; of any of its versions.")]


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    memories = group("memories", "What is kept for a long time: list, history, revise.")
    memories.command("list", epilog="Example: mnemolog memories --project shop --limit 10")(list_)
    memories.command(epilog="Example: mnemolog memories history mem_9e710a163bd72db5a7de")(history)
    memories.command(epilog='Example: mnemolog memories revise mem_9e710a163bd72db5a7de "We deploy on Fridays"')(revise)
    app.add_typer(memories)


def list_(
    project: InProject = "",
    every_version: Annotated[bool, typer.Option("--all", help="Also versions that newer ones replaced.")] = False,
    since: Since = "",
    until: Until = "",
    limit: Limit = 50,
    cursor: Cursor = "",
    agent: Reader = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List a project's memories, newest first. Exits 1 when there is none."""
    output = Output(as_json)
    latest = None if every_version else "true"
    wanted = {"project": project, "limit": limit, "cursor": cursor, "latest": latest, **in_time(since, until)}
    with answering(output), connect(url, agent) as client:
        page = client.get("/v1/memories", wanted)
        shown = table("when", "agent", "weight", "what")
        show_page(output, client, page, map(_row, page["items"]), shown)


def _row(one: Mapping[str, Any]) -> Iterator[Text | str]:
    yield when(one["occurred_at"], "%Y-%m-%d %H:%M")
    yield cell(one["agent_id"] or "-", 16)
    yield f"{one['importance']:g}"
    marks = [one["visibility"]] if one["visibility"] != "public" else []
    marks += [f"version {one['version']}"] if one["version"] > 1 else []
    marks += [] if one["is_latest"] else ["replaced"]
    marks += [f"confirmed {one['confirmations']}x"] if one["confirmations"] else []
    yield cell(one["content"]).append(
        f"\n{', '.join([plain(one['id']), *marks, *map(plain, one['tags'])])}", style="dim"
    )


def history(memory_id: MemoryId, agent: Reader = "", url: Url = None, as_json: AsJson = False) -> None:
    """List every version of a memory, oldest first."""
    output = Output(as_json)
    with answering(output), connect(url, agent) as client:
        found = client.get(f"/v1/memories/{quote(memory_id, safe='')}/history")
        output.document(found)
        output.show(history_table(found["items"], memory_id))


def revise(
    memory_id: MemoryId,
    text: Annotated[str, typer.Argument(help="The new text; `-` reads it from stdin. Left out: it stays.")] = "",
    title: Annotated[str, typer.Option(help="A new title.")] = "",
    tags: Tags = [],  # noqa: B006 - typer copies it
    importance: Annotated[float | None, typer.Option(min=0, max=10, help="0 to 10.")] = None,
    visibility: Annotated[
        Literal["public", "shared", "private"] | None, typer.Option(help="Who may recall it.", show_default="as it is")
    ] = None,
    shared_with: Annotated[str, typer.Option(help="Comma-separated agents who may recall it, too.")] = "",
    agent: AgentName = "",
    event_id: EventName = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Change a memory: a new version of it, or who may read it. What is left out stays."""
    output = Output(as_json)
    body: dict[str, Any] = {
        "content": text_of(text),
        "title": title,
        "tags": names_in(tags),
        "importance": importance,
        "visibility": visibility,
        "shared_with": names_in([shared_with]),
    }
    change = {name: value for name, value in body.items() if value not in ("", None, [])}
    if not change:
        output.error("say what is to change: a text, --title, --tags, --importance, --visibility or --shared-with")
        raise typer.Exit(USAGE)
    if event_id:
        change["event_id"] = event_id
    with answering(output), connect(url, agent) as client:
        changed(output, client.patch(f"/v1/memories/{quote(memory_id, safe='')}", change), "revised")
