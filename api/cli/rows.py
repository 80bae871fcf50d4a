"""Commands on nouns as rows (route, options, output), and helpers that all commands on documents share.

A new field of a noun is one more `Param` of its row in `nouns.py`.
"""

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial, update_wrapper
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias
from urllib.parse import quote

import typer
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from api.agents.checkouts import project_of
from api.cli.client import ApiClient
from api.cli.commands import spelled
from api.cli.output import Failed, Output, WrongCommand, answering, one_line
from ingest.ids import new_event_id
from ingest.kinds import KIND_NAMES
from ingest.names import comma_separated, visible
from ingest.platform.addresses import client_key
from ingest.platform.settings import from_environment

ALL_PROJECTS = 1_000
"""Sessions that are searched for project names."""

Url = Annotated[
    str | None,
    typer.Option("--url", envvar="MNEMOLOG_URL", help="Server to talk to.", show_default="http://127.0.0.1:3111"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Reader = Annotated[str, typer.Option("--agent", "-a", help="Read as this agent, including its private memories.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

_SERVER: dict[str, tuple[Any, Any]] = {"url": (Url, None), "as_json": (AsJson, False)}
CONTEXT: dict[str, tuple[Any, Any]] = {"context": (typer.Context, inspect.Parameter.empty)}
_NAMED = ("__name__", "__doc__", "__module__")
"""Of a decorated command: not its annotations, which typer would read instead of the signature."""

Values: TypeAlias = dict[str, Any]
Sent: TypeAlias = Callable[[Any], Any]
"""What is sent for a value of the command line."""
Show: TypeAlias = Callable[[Output, ApiClient, Any, Values], None]
"""Prints an answer for people; the values are those of the command line."""


def same(value: Any) -> Any:
    """The value itself."""
    return value


class Param(NamedTuple):
    """One option or argument, the request field that it fills (by default, the one of its own name), and how."""

    kind: Any
    info: Any
    field: str = ""
    sent: Sent = same


def argument(help: str, default: Any = ..., *, field: str = "", metavar: str | None = None, kind: str = "") -> Param:
    """A text on the command line; `-` reads it from stdin, unless it is an id (of a document of the `kind`, if any)."""
    sent = partial(id_of, kind) if kind else str if metavar == "ID" else text_of
    return Param(str, typer.Argument(default, help=help, metavar=metavar), field, sent)


def id_of(kind: str, name: str) -> str:
    """The id; raises WrongCommand for one of another kind of document."""
    if (other := KIND_NAMES.get(name.partition("_")[0], kind)) != kind:
        prefix = next(prefix for prefix, its in KIND_NAMES.items() if its == kind)
        raise WrongCommand(f"{name!r} is the id of a {other}; the id of a {kind} begins with {prefix}_")
    return name


def option(kind: Any, default: Any, help: str, *names: str, field: str = "", sent: Sent = same, **more: Any) -> Param:
    """An option; without `names`, it is called after its parameter."""
    return Param(kind, typer.Option(default, *names, help=help, **more), field, sent)


def text_option(help: str, *names: str, sent: Sent = same, **more: Any) -> Param:
    """An option with a text, by default an empty one; see `option`."""
    return option(str, "", help, *names, sent=sent, **more)


def flag(help: str, name: str, *, field: str = "") -> Param:
    """An option that makes a field true when given."""
    return option(bool, False, help, name, field=field, sent=lambda given: "true" if given else None)


class Do(NamedTuple):
    """One command: `route` is its request, `{fields}` in it are filled from the values.

    `then` shows the answer; of a write, it is the word that says what was done. A command with an `event_id` gets one,
    and leaves out empty fields. `prepare` checks or completes the request before it is sent.
    """

    name: str
    route: str
    help: str
    params: Mapping[str, Param]
    example: str
    then: Show | str
    prepare: Callable[[Values], Values] = same
    confirm: Callable[[Values], str] | None = None
    """The question before something is deleted; adds `--yes`."""
    fixed: Mapping[str, Any] = {}
    """Fields that are the same in every request."""


def moment(name: str) -> Callable[[str], str]:
    """A reader of the time in an option; raises BadParameter if it is not a date or time."""

    def read(text: str) -> str:
        try:
            return datetime.fromisoformat(text).astimezone().isoformat() if text else ""
        except (ValueError, OverflowError):
            message = f"{text!r} is not a valid time; use a form like 2026-01-31 or 2026-01-31T12:00"
            raise typer.BadParameter(message, param_hint=f"--{name}") from None

    return read


def most(default: int, limit: int = 1000) -> Param:
    """The option that limits a listing."""
    return option(int, default, "Maximum number of results.", "--limit", "-n", min=1, max=limit)


def project_here(given: str | None) -> str:
    """The project that is named, else the one of the working directory's checkout; empty outside of a checkout."""
    return project_of(str(Path.cwd()), os.environ) if given is None else given


def project_searched(given: str | None) -> str | None:
    """The same for a search; None, all projects, for `*` and outside of a checkout."""
    return None if given == "*" else project_here(given) or None


AGENT_READS = text_option("Read as this agent, including its private memories.", "--agent", "-a")
AGENT_WRITES = text_option("The writing agent.", "--agent", "-a")
AUTHOR = text_option("The writing agent.", "--agent", "-a", field="agent_id")
EVENT_ID = text_option("Event id; sending the same id again stores nothing twice.")
HERE = "this folder's"
ANY_PROJECT = option(
    str | None, None, "Only this project; `*` for all.", "--project", "-p", sent=project_searched, show_default=HERE
)
PAGE: dict[str, Param] = {
    "since": text_option(
        "Only items at or after TIME (local time unless it has a zone).", sent=moment("since"), metavar="TIME"
    ),
    "until": text_option("Only items before TIME.", sent=moment("until"), metavar="TIME"),
    "limit": most(50),
    "cursor": text_option("Continue from this cursor."),
    "agent": AGENT_READS,
}


def add(app: typer.Typer, command: Callable[..., None], example: str, name: str | None = None) -> None:
    """Add a command to an application or a group; its help has the example. By default it is called as its function."""
    app.command(name, epilog=f"Example: {spelled(example)}")(command)


def add_rows(app: typer.Typer, rows: Iterable[Do]) -> None:
    """Add commands to an application or a group."""
    for row in rows:
        app.command(row.name, epilog=f"Example: {spelled(row.example)}", help=row.help)(_command(row))


def _command(row: Do) -> Callable[..., None]:
    """The row as a function whose signature typer reads."""

    def run(**given: Any) -> None:
        output, url, yes = Output(given.pop("as_json")), given.pop("url"), given.pop("yes", True)
        agent = given.pop("agent") if "agent" in row.params and not row.params["agent"].field else ""
        with answering(output), connect(url, agent) as client:
            values = values_of(row.params, given)
            values = row.prepare({**values, **row.fixed})
            if row.confirm is not None:
                agreed(output, row.confirm(values), yes)
            answer = _send(client, row, values)
            if given.get("project", "") is None and values["project"]:
                output.note(f"project {values['project']} (of this folder; --project chooses another)")
            output.document(answer)
            if isinstance(row.then, str):
                repeated = " (already known; nothing new stored)" if answer.get("duplicate") else ""
                done = f"{row.then.format(**values)} {answer.get('id', '')}".rstrip()
                output.line(f"{done} at {answer['position']}{repeated}")
            else:
                row.then(output, client, answer, values)

    return with_options(run, **options_of(row.params), **({"yes": (Yes, False)} if row.confirm else {}), **_SERVER)


def options_of(params: Mapping[str, Param]) -> dict[str, tuple[Any, Any]]:
    """Type and default of each parameter, for `with_options`."""
    return {name: (param.kind, param.info) for name, param in params.items()}


def values_of(params: Mapping[str, Param], given: Values) -> Values:
    """The values of the command line as request fields."""
    return {params[name].field or name: params[name].sent(value) for name, value in given.items()}


def filled(route: str, values: Values) -> tuple[str, str, Values]:
    """Method and path of a route, with the values that it names in place, and the other values."""
    method, _, path = route.partition(" ")
    in_path = re.findall(r"{(\w+)}", path)
    path = path.format(**{name: quote(str(values[name]), safe="") for name in in_path})
    return method, path, {name: value for name, value in values.items() if name not in in_path}


def with_options(
    run: Callable[..., None], params: Iterable[inspect.Parameter] = (), /, **options: tuple[Any, Any]
) -> Callable[..., None]:
    """The function with the parameters that typer reads; each option has its type and its default."""
    more = (
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in options.items()
    )
    run.__signature__ = inspect.Signature([*params, *more])  # pyright: ignore[reportFunctionMemberAccess]
    return run


def on_server(command: Callable[..., None]) -> Callable[..., None]:
    """Adds `--url` and `--json` to a command that begins with `output` and `client`, and reports its errors.

    The client reads and writes as the parameter `agent`, if there is one. A group's own command does not run before a
    subcommand.
    """

    def run(**values: Any) -> None:
        output, url = Output(values.pop("as_json")), values.pop("url")
        if values.pop("context").invoked_subcommand is None:
            with answering(output), connect(url, values.get("agent", "")) as client:
                command(output, client, **values)

    _, _, *params = inspect.signature(command).parameters.values()
    return with_options(update_wrapper(run, command, _NAMED, ()), params, **CONTEXT, **_SERVER)


def without_server(
    reporting: Callable[[Output], AbstractContextManager[None]],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Like `on_server`, for commands that begin with `output`; `reporting` reports their errors."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def run(**values: Any) -> None:
            output = Output(values.pop("as_json"))
            if values.pop("context").invoked_subcommand is None:
                with reporting(output):
                    command(output, **values)

        _, *params = inspect.signature(command).parameters.values()
        return with_options(update_wrapper(run, command, _NAMED, ()), params, **CONTEXT, as_json=(AsJson, False))

    return decorate


on_machine = without_server(answering)
"""For commands that need settings, but no server."""


def _send(client: ApiClient, row: Do, values: Values) -> Any:
    if "event_id" in row.params:
        required = {param.field or name for name, param in row.params.items() if param.info.default is ...}
        values = {name: value for name, value in values.items() if name in required or value not in ("", None, [], {})}
        # chosen here, so that sending it again after a cut connection stores it once
        values["event_id"] = values.get("event_id") or new_event_id()
    method, path, rest = filled(row.route, values)
    return getattr(client, method.lower())(path, rest)


def connect(url: str | None, agent: str = "") -> ApiClient:
    """A client for the server that the option, else the environment names; raises InvalidSetting or InvalidUrl."""
    server = url or from_environment(os.environ).url
    return ApiClient(server, client_key(server, os.environ), agent=agent)


class _ListsByDefault(TyperGroup):
    """A group that runs `list` when no command is given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = args[:1] == ["--help"] or (args and not args[0].startswith("-"))
        return super().parse_args(ctx, args if named else ["list", *args])


def group(name: str, about: str) -> typer.Typer:
    """A group of commands; without a command it lists."""
    return typer.Typer(name=name, help=f"{about} Without a command: list.", cls=_ListsByDefault)


def listing(columns: tuple[str, ...], cells: Callable[[Any], Iterable[Text | str]]) -> Show:
    """Shows a page as a table. Exits 1 if it is empty."""

    def show(output: Output, client: ApiClient, page: Any, values: Values) -> None:
        show_page(output, client, page, map(cells, page["items"]), table(*columns))

    return show


def show_page(
    output: Output, client: ApiClient, page: Mapping[str, Any], rows: Iterable[Iterable[Text | str]], page_table: Table
) -> None:
    """A page of a listing, in a table. Exits 1 if it is empty, after naming the projects with sessions."""
    for note in page.get("notes", ()):
        output.note(note)
    for row in rows:
        page_table.add_row(*row)
    if page["items"]:
        output.show(page_table)
    if page.get("next"):
        output.note(f"more: --cursor {page['next']}")
    elif not page["items"]:
        projects = ""
        if page.get("notes"):
            raise Failed
        if not output.as_json:
            sessions = client.get("/v1/sessions", {"limit": ALL_PROJECTS})["items"]
            names = sorted({session["project"] for session in sessions if session["project"]})
            if names:
                projects = f" Projects with sessions: {', '.join(names)}; choose one with --project."
        output.note(f"No results.{projects}")
        raise Failed


def table(*titles: str) -> Table:
    """A table without lines; wrap agents' text in Text, so that rich does not read it as markup."""
    return Table(*titles, box=None, pad_edge=False, header_style="bold")


def fields_table(fields: Mapping[str, str]) -> Table:
    """A table of names and values, without empty ones."""
    rows = table("", "")
    rows.show_header = False
    rows.columns[0].style = "dim"
    for name, value in fields.items():
        if value:
            rows.add_row(name, Text(value))
    return rows


def cell(text: str, limit: int = 200, style: str = "") -> Text:
    """An agent's text on one line, for a table cell."""
    return Text(one_line(text, limit), style=style)


def agreed(output: Output, question: str, yes: bool) -> None:
    """Return if the user agrees. Exits 2 without a terminal to ask at, 1 after a no."""
    if yes:
        return
    if output.as_json or not sys.stdin.isatty():
        raise WrongCommand(f"{question} (not a terminal; pass --yes to do it)")
    if not typer.confirm(visible(question), err=True):
        output.note("nothing was changed")
        raise Failed


def when(text: str, form: str) -> str:
    """A time of the server in the local zone; text that is not a time as it is."""
    try:
        return datetime.fromisoformat(text).astimezone().strftime(form)
    except ValueError:
        return text


def text_of(text: str) -> str:
    """The text of an argument; for `-`, all of stdin, without a byte order mark."""
    return sys.stdin.read().removeprefix("\ufeff") if text == "-" else text


def names_in(values: str | Iterable[str]) -> list[str]:
    """The names of one or several comma-separated lists."""
    lists = [values] if isinstance(values, str) else values
    return [name for names in lists for name in comma_separated(names)]
