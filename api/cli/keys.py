"""`mnemolog admin keys`: create, rotate and revoke API keys on the server's machine.

Works on Redis itself, like `backup`: at REDIS_URL, or embedded, which is started if it is not running. So the first key
can be created when no request is allowed yet. Admins elsewhere use /v1/admin/keys.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer
from msgspec.structs import asdict, replace
from rich.table import Table

from api.access.keys import FRESH_S, Grant, Key, Made, Registry, parse
from api.cli.direct import on_redis, server
from api.cli.output import Failed, Output
from api.cli.rows import Url, add, names_in
from ingest.commands.parse import rejected
from ingest.errors import CommandRejected
from ingest.platform.addresses import client_key, store_key
from ingest.platform.clock import system_clock, to_ms
from ingest.platform.connections import connected
from ingest.platform.files import docs_page
from ingest.platform.settings import from_environment

T = TypeVar("T")

OPERATOR = Grant(name="operator", roles=["operator"])
ROLES_HELP = "read, write, admin, metrics or operator; may be repeated, or comma-separated."
Store = Annotated[
    bool, typer.Option("--store", help="Also store it on this machine for this user's commands, hooks and MCP bridges.")
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask for confirmation, not even for the server's first key.")
]
ForServer = Annotated[
    str | None, typer.Option("--url", envvar="MNEMOLOG_URL", help="With --store: the server that the key is for.")
]
KeyId = Annotated[str, typer.Argument(help="Id of the key: the part between `mnk_` and the next `_`.")]
Days = Annotated[float | None, typer.Option("--days", min=0, help="Days until it expires. Default: never.")]


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    keys = typer.Typer(name="keys", help="API keys: who can use the server, and for what.", no_args_is_help=True)
    add(keys, create, "keys create fleet --role read,write --project shop --days 90")
    add(keys, list_, "keys list --json", "list")
    add(keys, show, "keys show 0123456789AB")
    add(keys, store, "keys store < key.txt")
    add(keys, rotate, "keys rotate 0123456789AB --grace-hours 2")
    add(keys, revoke, "keys revoke 0123456789AB")
    app.add_typer(keys)


@on_redis
def create(
    output: Output,
    name: Annotated[str, typer.Argument(help="A name that says what the key is for.")],
    role: Annotated[list[str], typer.Option("--role", help=ROLES_HELP)],
    project: Annotated[
        list[str],
        typer.Option("--project", "-p", help="Only this project; may be repeated. `` is the project without a name."),
    ] = [],  # noqa: B006 - typer copies it
    agent: Annotated[list[str], typer.Option("--agent", "-a", help="Only as this agent; may be repeated.")] = [],  # noqa: B006
    tenant: Annotated[str, typer.Option(help="Tenant of the key.", show_default="MNEMOLOG_TENANT")] = "",
    days: Days = None,
    reads_per_minute: Annotated[int, typer.Option(min=0, help="Reads per minute; 0: unlimited.")] = 0,
    writes_per_minute: Annotated[int, typer.Option(min=0, help="Writes per minute; 0: unlimited.")] = 0,
    operator: Annotated[
        bool | None,
        typer.Option(
            "--operator/--no-operator",
            help="With the server's first key, also create an operator key.",
            show_default="asks at a terminal, else no",
        ),
    ] = None,
    store_it: Store = False,
    yes: Yes = False,
    url: ForServer = None,
) -> None:
    """Create a key and print it once; the server only stores a hash. The first key locks out everyone without one."""
    asks = not (yes or output.as_json) and sys.stdin.isatty()
    try:
        grant = msgspec.convert(
            {
                "name": name,
                "roles": list(dict.fromkeys(names_in(role))),
                "tenant": tenant or from_environment(os.environ).tenant,
                "projects": project,
                "agents": agent,
                "expires_at": _in_days(days),
                "reads_per_minute": reads_per_minute,
                "writes_per_minute": writes_per_minute,
            },
            Grant,
        )
    except msgspec.ValidationError as error:
        raise rejected(error) from None

    async def keys(registry: Registry) -> tuple[Made, Made | None]:
        """The key, and the operator key, if one is created with the first key."""
        also = await registry.version() == 0 and _before_the_first(
            output, grant, stored=store_it, operator=operator, asks=asks, url=url
        )
        made = await registry.create(grant)
        return made, await registry.create(replace(OPERATOR, tenant=grant.tenant)) if also else None

    made, operators = _on_registry(keys)
    _hand_out(output, made, store_it, url, operators)
    if operators is not None:
        output.note("the operator key, with full access; keep it private:")
        output.line(str(operators.token))


@on_redis
def store(output: Output, url: Url = None) -> None:
    """Store a key, read from stdin, for the commands, hooks and MCP bridges of this user."""
    typed = typer.prompt("API key", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.readline()
    token = parse(typed.strip())
    if token is None:
        raise CommandRejected("not a valid API key; check for typos or missing characters", "key")
    output.document({"stored": str(_store_key(output, str(token), url))})


@on_redis
def list_(
    output: Output, everything: Annotated[bool, typer.Option("--all", help="Include expired and revoked keys.")] = False
) -> None:
    """List keys, oldest first, without their secrets."""
    now_ms = to_ms(system_clock())
    keys = [key for key in _on_registry(Registry.all) if everything or key.holds(now_ms)]
    output.document({"keys": [asdict(key.view(now_ms)) for key in keys]})
    if keys:
        output.show(_table(keys, now_ms))
    else:
        output.note("there are no keys")


@on_redis
def show(output: Output, key_id: KeyId) -> None:
    """Show a key, without its secret. Exits 1 if it does not exist."""
    _show(output, _on_registry(lambda registry: registry.get(key_id)))


@on_redis
def rotate(
    output: Output,
    key_id: KeyId,
    grace_hours: Annotated[float, typer.Option(min=0, max=2160, help="How long the old key keeps working.")] = 24.0,
    days: Days = None,
    store_it: Store = False,
    url: ForServer = None,
) -> None:
    """Replace a key with a new one with the same permissions, and print it. The old one works for a grace period."""
    made = _on_registry(lambda registry: registry.rotate(key_id, timedelta(hours=grace_hours), _in_days(days)))
    _hand_out(output, made, store_it, url)


@on_redis
def revoke(output: Output, key_id: KeyId) -> None:
    """Revoke a key; it stops working within two seconds."""
    _show(output, _on_registry(lambda registry: registry.revoke(key_id)))
    output.note(f"running servers reject it within {FRESH_S:g} seconds")


def _on_registry(ask: Callable[[Registry], Awaitable[T]]) -> T:
    """Run a query on the registry in the Redis of the settings. Runs an event loop."""

    async def on_server(url: str) -> T:
        async with connected(url) as redis:
            return await ask(Registry(redis))

    with server(from_environment(os.environ)) as url:
        return asyncio.run(on_server(url))


def _in_days(days: float | None) -> datetime | None:
    if days is None:
        return None
    try:
        return datetime.now(UTC) + timedelta(days=days)
    except OverflowError:
        raise CommandRejected("that is after the year 9999", "days") from None


def _hand_out(output: Output, made: Made, store_it: bool, url: str | None, operator: Made | None = None) -> None:
    """Print a new key, and store it if requested."""
    stored = str(_store_key(output, str(made.token), url)) if store_it else None
    keys = {"": (made, stored), "operator": (operator, None)}
    fields = {
        role: {"key": str(key.token), **asdict(key.key.view(to_ms(system_clock()))), "stored": path}
        for role, (key, path) in keys.items()
        if key is not None
    }
    output.document({**fields.pop(""), **fields})
    output.line(str(made.token))
    output.note("shown only once; clients send it as `Authorization: Bearer mnk_...`, or set MNEMOLOG_KEY")


def _store_key(output: Output, key: str, url: str | None) -> Path:
    server = url or from_environment(os.environ).url
    path = store_key(key, server, os.environ)
    output.note(f"stored in {path}: this user's commands, hooks and MCP bridges send it to {server}")
    return path


def _before_the_first(
    output: Output, grant: Grant, *, stored: bool, operator: bool | None, asks: bool, url: str | None
) -> bool:
    """Warn about what stops working with the first key, and how to fix it; returns whether to create an operator key.

    Exits 1 if the user declines.
    """
    settings = from_environment(os.environ)
    server = url or settings.url
    output.note(
        f"this is the server's first key: within {FRESH_S:g} seconds, every request needs a key (or MNEMOLOG_SECRET, "
        "if the server has one); all others get 401"
    )
    from api.agents.files import System, installed  # only for what `mnemolog install` wrote

    files = installed(System(Path.home(), Path.cwd(), os.environ))
    for host, path in files:
        output.note(f"used by {host.value}, in {path}")
    if not stored and client_key(server, os.environ) is None:
        users = "the above and this user's commands have" if files else "this user's commands, hooks and bridges have"
        output.note(
            f"{users} no key: store one with `mnemolog admin keys create hooks --role read,write --store` (or "
            "`mnemolog admin keys store`), or set MNEMOLOG_KEY for them"
        )
    output.note(
        f"hooks spool refused events in {settings.spool} and report it once; clients of other systems send the key as "
        f"their secret: see {docs_page('access.md')}"
    )
    if asks and not typer.confirm("Create it?", err=True):
        output.note("no key was created")
        raise Failed
    if "operator" in grant.roles or settings.secret:
        return False
    if operator is None and asks:
        return typer.confirm("Also create an operator key? Rebuilds and lag need one", True, err=True)
    if not operator:
        output.note(
            "there is no operator key yet: create one with `mnemolog admin keys create operator --role operator`"
        )
    return bool(operator)


def _show(output: Output, key: Key) -> None:
    now_ms = to_ms(system_clock())
    output.document(asdict(key.view(now_ms)))
    output.show(_table([key], now_ms))


def _table(keys: list[Key], now_ms: int) -> Table:
    table = Table("id", "name", "tenant", "roles", "projects", "agents", "status", "expires")
    for key in keys:
        fields: dict[str, Any] = asdict(key.view(now_ms))
        projects = ", ".join(project or repr(project) for project in fields["projects"]) or "all"
        expires = fields["expires_at"]
        table.add_row(
            key.id, key.name, key.tenant, ", ".join(fields["roles"]), projects,
            ", ".join(fields["agents"]) or "all", fields["status"],
            f"{expires:%Y-%m-%d %H:%M} UTC" if expires else "never",
        )  # fmt: skip
    return table
