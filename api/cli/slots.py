"""`mnemolog slots`: small named texts that are in every agent's context."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal
from urllib.parse import quote

import typer
from rich.text import Text

from api.cli.commands import AgentName, AsJson, EventName, Url, connect, text_of, when
from api.cli.listing import Reader, Yes, agreed, cell, changed, group, show_page, table
from api.cli.output import Output, answering, plain

Label = Annotated[str, typer.Argument(help="Label of the slot: small letters, digits, `_`.")]
OfProject = Annotated[str, typer.Option("--project", "-p", help="Of this project.", show_default="global ones only")]
Scope = Annotated[Literal["project", "global"], typer.Option(help="The project's, or every project's.")]


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    slots = group("slots", "Small texts that are in every agent's context: list, get, set, append, delete.")
    slots.command("list", epilog="Example: mnemolog slots --project shop")(list_)
    slots.command(epilog="Example: mnemolog slots get pending_items --project shop")(get)
    slots.command("set", epilog='Example: mnemolog slots set guidance "Ask before you deploy." --project shop')(set_)
    slots.command(epilog='Example: mnemolog slots append pending_items "Rotate the keys" --project shop')(append)
    slots.command(epilog="Example: mnemolog slots delete release_notes --project shop")(delete)
    app.add_typer(slots)


def list_(project: OfProject = "", agent: Reader = "", url: Url = None, as_json: AsJson = False) -> None:
    """List a project's slots and the global ones, also those that are still empty."""
    output = Output(as_json)
    with answering(output), connect(url, agent) as client:
        page = client.get("/v1/slots", {"project": project})
        shown = table("label", "scope", "size", "changed", "what")
        show_page(output, client, page, map(_row, page["items"]), shown)


def _row(one: Mapping[str, Any]) -> Iterator[Text | str]:
    yield one["label"]
    yield one["scope"]
    yield f"{one['size']:,} of {one['size_limit']:,}"
    yield when(one["updated_at"], "%Y-%m-%d %H:%M") if one["updated_at"] else "never"
    marks = [] if one["pinned"] else ["not in contexts"]
    marks += ["read only"] if one["read_only"] else []
    told = cell(one["content"]) if one["content"] else Text("empty", style="dim")
    yield told.append(f" ({', '.join(marks)})", style="dim") if marks else told


def get(label: Label, project: OfProject = "", agent: Reader = "", url: Url = None, as_json: AsJson = False) -> None:
    """Print the text of a slot: the project's, else the global one."""
    output = Output(as_json)
    with answering(output), connect(url, agent) as client:
        slot = client.get(f"/v1/slots/{quote(label, safe='')}", {"project": project})
        output.document(slot)
        output.line(Text(plain(slot["content"])))


def set_(
    label: Label,
    text: Annotated[str, typer.Argument(help="The text; `-` reads it from stdin.")],
    project: OfProject = "",
    scope: Scope = "project",
    size_limit: Annotated[
        int | None, typer.Option(min=1, max=20_000, help="Characters it may have.", show_default="as it is")
    ] = None,
    description: Annotated[str | None, typer.Option(help="What it is for.", show_default="as it is")] = None,
    pinned: Annotated[
        bool | None, typer.Option("--pinned/--not-pinned", help="Whether contexts tell it.", show_default="as it is")
    ] = None,
    read_only: Annotated[bool | None, typer.Option("--read-only", help="Nobody may change it from then on.")] = None,
    agent: AgentName = "",
    event_id: EventName = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Replace the text of a slot, which is made where there is none."""
    options = {"size_limit": size_limit, "description": description, "pinned": pinned, "read_only": read_only or None}
    body = {"label": label, "content": text_of(text), "project": project, "scope": scope, "event_id": event_id}
    output = Output(as_json)
    with answering(output), connect(url, agent) as client:
        sent = {**body, **{name: value for name, value in options.items() if value is not None}}
        changed(output, client.write("/v1/slots", sent), "set")


def append(
    label: Label,
    text: Annotated[str, typer.Argument(help="The line; `-` reads it from stdin.")],
    project: OfProject = "",
    scope: Scope = "project",
    agent: AgentName = "",
    event_id: EventName = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Add a line to a slot. Exits 1 when it is full."""
    body = {"label": label, "content": text_of(text), "project": project, "scope": scope, "event_id": event_id}
    output = Output(as_json)
    with answering(output), connect(url, agent) as client:
        changed(output, client.write("/v1/slots", {**body, "append": True}), "added to")


def delete(
    label: Label,
    project: OfProject = "",
    scope: Scope = "project",
    agent: AgentName = "",
    yes: Yes = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Delete a slot; a default one is empty again. What it said stays in the log until its project is forgotten."""
    output = Output(as_json)
    with answering(output), connect(url, agent) as client:
        agreed(output, f"Delete the slot {label!r} of {'all projects' if scope == 'global' else repr(project)}?", yes)
        named = {"project": project, "scope": scope}
        changed(output, client.delete(f"/v1/slots/{quote(label, safe='')}", named), "deleted")
