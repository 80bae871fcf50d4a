"""What the commands on documents share: groups that list by default, tables, pages, questions before a deletion."""

import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from api.cli.client import ApiClient
from api.cli.output import FAILED, USAGE, Output, one_line, plain

ALL_PROJECTS = 1_000
"""Sessions that are looked at for the names of projects."""

InProject = Annotated[
    str, typer.Option("--project", "-p", help="Of this project.", show_default="what is of no project")
]
Reader = Annotated[str, typer.Option("--agent", "-a", help="Read as this agent: its private memories, too.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="At most so many.")]
Cursor = Annotated[str, typer.Option(help="Go on where the listing before ended.")]
Since = Annotated[
    str, typer.Option(metavar="TIME", help="Only what happened then or later; of this machine's zone, unless it says.")
]
Until = Annotated[str, typer.Option(metavar="TIME", help="Only what happened before that.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


class _ListsByDefault(TyperGroup):
    """A group whose `list` is meant where no command of it is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = args[:1] == ["--help"] or (args and not args[0].startswith("-"))
        return super().parse_args(ctx, args if named else ["list", *args])


def in_time(since: str, until: str) -> dict[str, str]:
    """What a listing is asked for the times of; raises BadParameter for what is no date or time."""
    return {name: _moment(name, text) for name, text in (("since", since), ("until", until)) if text}


def _moment(name: str, text: str) -> str:
    try:
        return datetime.fromisoformat(text).astimezone().isoformat()
    except (ValueError, OverflowError):
        told = f"{text!r} is no time such as 2026-01-31 or 2026-01-31T12:00"
        raise typer.BadParameter(told, param_hint=f"--{name}") from None


def group(name: str, about: str) -> typer.Typer:
    """A group of commands; without a command it lists."""
    return typer.Typer(name=name, help=f"{about} Without a command: list.", cls=_ListsByDefault)


def table(*titles: str) -> Table:
    """A table without lines; what agents wrote goes into it as Text."""
    return Table(*titles, box=None, pad_edge=False, header_style="bold")


def show_page(
    output: Output, client: ApiClient, page: Mapping[str, Any], rows: Iterable[Iterable[Text | str]], shown: Table
) -> None:
    """A page of a listing. Exits 1 when there is none, with the projects there are, as a hint."""
    output.document(page)
    for note in page.get("notes", ()):
        output.note(plain(note))
    for row in rows:
        shown.add_row(*row)
    if page["items"]:
        output.show(shown)
    if page.get("next"):
        output.note(f"more: --cursor {page['next']}")
    elif not page["items"]:
        output.note("there is none here" + ("" if output.as_json else _projects(client)))
        raise typer.Exit(FAILED)


def _projects(client: ApiClient) -> str:
    sessions = client.get("/v1/sessions", {"limit": ALL_PROJECTS})["items"]
    names = sorted({one["project"] for one in sessions if one["project"]})
    return f"; there are sessions of the projects {plain(', '.join(names))}: name one with --project" if names else ""


def cell(text: str, limit: int = 200, style: str = "") -> Text:
    """What an agent wrote, on one line, in a cell of a table."""
    return Text(one_line(text, limit), style=style)


def agreed(output: Output, question: str, yes: bool) -> None:
    """Return when it may be done. Exits 2 where there is no terminal to ask at, 1 after a no."""
    if yes:
        return
    if output.as_json or not sys.stdin.isatty():
        output.error("not a terminal; pass --yes to do it")
        raise typer.Exit(USAGE)
    if not typer.confirm(plain(question), err=True):
        output.note("nothing was changed")
        raise typer.Exit(FAILED)


def changed(output: Output, accepted: Mapping[str, Any], done: str) -> None:
    """What a write became: `done` says what was done, in a word or two."""
    output.document(accepted)
    known = " (known already, nothing new stored)" if accepted.get("duplicate") else ""
    output.line(Text(plain(f"{done} {accepted.get('id', '')}".rstrip() + f" at {accepted['position']}{known}")))
