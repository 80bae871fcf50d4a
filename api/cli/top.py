"""`mnemolog top`: how busy a server is, what waits, and what was recorded last; again and again until q or Ctrl-C."""

import re
import select
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from msgspec import Struct, field, structs
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from api.cli.client import ApiClient, ClientError
from api.cli.commands import AsJson, Url, connect, lag_totals, when
from api.cli.health import figures, status_of
from api.cli.listing import cell, table
from api.cli.output import Output, answering, plain

ROUTES, RECENT = 8, 10
FIRST_S = 1.0
"""Between the two looks that a snapshot takes: a rate needs two."""
_SAMPLE = re.compile(r"mnemolog_http_request_duration_seconds_(count|sum)\{(.*)\} (\S+)")
_ROUTE = re.compile(r'route="([^"]*)"')


class Busy(Struct, frozen=True):
    """A route between two looks: requests a second, and milliseconds that one took."""

    route: str
    per_s: float
    mean_ms: float


class Look(Struct, frozen=True, kw_only=True):
    """What a server told at one moment, as far as the key may know it; `unseen` says what not, and why."""

    at: float
    state: dict[str, Any] = field(default_factory=dict[str, Any])
    served: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """Requests and seconds of each route since the server started."""
    partitions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    recent: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    unseen: list[str] = field(default_factory=list[str])


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command(epilog="Example: mnemolog top --every 5")(top)


def top(
    every: Annotated[float, typer.Option(min=0.2, max=3600, help="Seconds between two looks.")] = 2.0,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show how busy the server is, what waits, and what was recorded last, as it changes. q or Ctrl-C ends it.

    Without a terminal, and with --json: once. What the key may not know is left out, and named.
    """
    output = Output(as_json)
    with answering(output), connect(url) as client:
        before = look(client)
        try:
            if as_json or not output.console.is_terminal:
                time.sleep(FIRST_S)
                _once(output, client.url, before, look(client))
            else:
                _live(output, client, before, every)
        except KeyboardInterrupt:
            return


def _once(output: Output, url: str, before: Look, now: Look) -> None:
    output.document(
        {
            "server": now.state,
            "requests": rates(before, now),
            "partitions": now.partitions,
            "recent": now.recent,
            "unseen": now.unseen,
        }
    )
    output.show(*_parts(url, before, now))


def _live(output: Output, client: ApiClient, before: Look, every_s: float) -> None:
    """Until q, on a screen of its own. A server that is away for a while is shown as that."""
    pause_s = FIRST_S
    with _keys() as pressed, Live(console=output.console, screen=True, auto_refresh=False) as live:
        live.update(Group(*_parts(client.url, before, before)), refresh=True)
        while pressed(pause_s) != "q":
            pause_s = every_s
            try:
                now = look(client)
            except ClientError as error:
                live.update(Text(plain(str(error)), style="bold red"), refresh=True)
                continue
            live.update(Group(*_parts(client.url, before, now), Text("q ends it", style="dim")), refresh=True)
            before = now


@contextmanager
def _keys() -> Generator[Callable[[float], str]]:
    """What waits so many seconds for a key, and returns it, or nothing; only waits where stdin is no terminal."""
    if not sys.stdin.isatty():
        yield lambda seconds: time.sleep(seconds) or ""
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield lambda seconds: sys.stdin.read(1) if select.select([sys.stdin], [], [], seconds)[0] else ""
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def look(client: ApiClient) -> Look:
    """Everything that the key may know now; raises ClientError where no server answers, or the key is none."""
    state = client.look("/readyz")[1]
    unseen = [] if "vitals" in state else ["vital signs: the key has not the role metrics"]
    now = Look(at=time.monotonic(), state=state, unseen=unseen)
    for name, ask in (
        ("requests", lambda: {"served": served(b"".join(_metrics(client)).decode())}),
        ("partitions", lambda: {"partitions": client.get("/v1/admin/projections")["partitions"]}),
        ("recent", lambda: {"recent": client.get("/v1/audit", {"operation": "*", "limit": RECENT})["entries"]}),
    ):
        try:
            now = structs.replace(now, **ask())
        except ClientError as error:
            if error.exit_code != 1:  # nobody answers any more
                raise
            now = structs.replace(now, unseen=[*now.unseen, f"{name}: {error}"])
    return now


def _metrics(client: ApiClient) -> Iterable[bytes]:
    with client.download("/metrics", {}) as blocks:
        yield from blocks


def served(metrics: str) -> dict[str, tuple[float, float]]:
    """Requests and seconds of each route, of all processes and methods, from Prometheus text."""
    counts, seconds = Counter[str](), Counter[str]()
    for line in metrics.splitlines():
        if found := _SAMPLE.match(line):
            route = _ROUTE.search(found[2])
            (counts if found[1] == "count" else seconds)[route[1] if route else ""] += float(found[3])  # pyright: ignore[reportArgumentType]
    return {route: (count, seconds[route]) for route, count in counts.items()}


def rates(before: Look, now: Look) -> list[Busy]:
    """The routes that answered between two looks, the busiest first."""
    elapsed = max(now.at - before.at, 1e-3)
    found: list[Busy] = []
    for route, (count, seconds) in now.served.items():
        count_before, seconds_before = before.served.get(route, (0.0, 0.0))
        if (answered := count - count_before) > 0:
            found.append(Busy(route, answered / elapsed, 1e3 * (seconds - seconds_before) / answered))
    return sorted(found, key=lambda one: -one.per_s)


def _parts(url: str, before: Look, now: Look) -> list[RenderableType]:
    state, busy = now.state, rates(before, now)
    word = status_of(state)
    status = Text(f"{url}  ").append(plain(word), style="green" if word == "ready" else "yellow")
    if "documents" in state:
        status.append(f"  {state['documents']:,} documents", style="dim")
    parts: list[RenderableType] = [status]
    parts += [Text(f"{one['code']}: {plain(one['message'])}", style="yellow") for one in state.get("degraded", ())]
    parts += [Text(plain(state["detail"]), style="red")] if "detail" in state else []
    if "vitals" in state:
        parts += [Text(), _vitals(state)]
    if now.served:
        parts += [Text(), _busy(busy)]
    if now.partitions:
        parts += [Text(), _waiting(now.partitions)]
    if now.recent:
        parts += [Text(), _recent(now.recent)]
    return parts + [Text(f"not shown: {plain(one)}", style="dim") for one in now.unseen]


def _vitals(state: Mapping[str, Any]) -> Table:
    shown = Table.grid(padding=(0, 3))
    told = [f"[dim]{name}[/] {value}" for name, value in figures(state["vitals"], state["lag"]).items()]
    for place in range(0, len(told), 3):
        shown.add_row(*told[place : place + 3])
    return shown


def _busy(busy: list[Busy]) -> Table:
    shown = table("requests/s", "mean ms", "route")
    shown.columns[0].justify = shown.columns[1].justify = "right"
    shown.add_row(f"{sum(one.per_s for one in busy):,.1f}", "", "all")
    for one in busy[:ROUTES]:
        shown.add_row(f"{one.per_s:,.1f}", f"{one.mean_ms:,.1f}", plain(one.route))
    return shown


def _waiting(partitions: list[dict[str, Any]]) -> Table:
    """What each worker has left to do."""
    shown = table("worker", "partitions", "not projected", "to embed", "dead letters")
    for worker in sorted({one["worker"] or "" for one in partitions}):
        its = [one for one in partitions if (one["worker"] or "") == worker]
        shown.add_row(cell(worker or "none", 40), str(len(its)), *map(str, lag_totals(its).values()))
    return shown


def _recent(entries: list[dict[str, Any]]) -> Table:
    shown = table("when", "what", "project", "agent", "document")
    for one in entries:
        document = one["targets"][0] if one["targets"] else ""
        cells = (one["operation"], one["project"] or "-", one["agent_id"] or "-", document)
        shown.add_row(when(one["at"], "%H:%M:%S"), *(cell(text, 32) for text in cells))
    return shown
