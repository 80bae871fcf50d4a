"""The commands on a running server: health, its lag, its log as it grows, its viewer."""

import heapq
import time
import webbrowser
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from api.cli.client import ApiClient
from api.cli.errors import ClientError
from api.cli.output import Failed, Output, one_line
from api.cli.rows import add, fields_table, on_server, table, when
from ingest.platform.settings import mib

POLL_S = 1.0
"""Between two reads at the head of the log; each reads every partition."""
PAGE = 500
MOST_PARTITIONS = 1024
FIRST_PAGE, HELD = 20, 10_000
"""Events of a partition that are read first; of all partitions that are held while they are put in order."""
BACKLOGS = frozenset({"late", "embedding"})
"""Conditions of `/readyz` that only say that work is waiting; the viewer's dashboard has the same."""
_COLORS = {"ready": "green", "catching up": "green", "degraded": "yellow"}


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    add(app, tail, "tail --json --no-follow --type memory.recorded")
    add(app, lag, "lag --max 1000")
    add(app, health, "health")
    add(app, open_, "open --url http://127.0.0.1:3111", "open")


@on_server
def tail(
    output: Output,
    client: ApiClient,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Wait for new events at the end.")] = True,
    after: Annotated[
        str, typer.Option(help="`start`, `now` or a position. Default: now when following, otherwise start.")
    ] = "",
    event_type: Annotated[str, typer.Option("--type", help="Only this type, e.g. memory.recorded.")] = "",
    session: Annotated[str, typer.Option("--session", "-s", help="Only this session.")] = "",
) -> None:
    """Print the log, one event per line, in order of time, and then new events as they arrive. Ctrl-C ends it."""
    position = after or ("now" if follow else "start")
    if position == "now":
        position = head(client)
    follow_log(client, output, "" if position == "start" else position, follow, event_type, session)


@on_server
def lag(
    output: Output,
    client: ApiClient,
    most: Annotated[
        int | None, typer.Option("--max", min=0, help="Exit 1 if more events than this are pending.")
    ] = None,
) -> None:
    """Show how far behind the projections are, by partition."""
    rows = projections_of(client)
    totals = lag_totals(rows)
    output.document({"partitions": rows, **totals})
    partitions = table("partition", "lag", "to embed", "dead letters", "searchable", "worker")
    partitions.show_footer = True
    for column in partitions.columns[:4]:
        column.justify = "right"
    for row in rows:
        complete = _ms_and_sequence(row["searchable"]) >= _ms_and_sequence(row["head"])
        dead = Text(str(row["dead_letters"]), style="red" if row["dead_letters"] else "")
        searchable = Text("all", style="green") if complete else Text(row["searchable"], style="yellow")
        worker = one_line(row["worker"] or "none", 40)
        partitions.add_row(str(row["partition"]), str(row["lag"]), str(row["to_embed"]), dead, searchable, worker)
    for column, total in zip(partitions.columns, ("all", *totals.values()), strict=False):
        column.footer = str(total)
    output.show(partitions)
    if not any(row["worker"] for row in rows):
        output.note("no worker holds a partition: nothing is being projected")
    if most is not None and totals["lag"] > most:
        output.note(f"{totals['lag']} events are pending; the limit is {most}")
        raise Failed


def projections_of(client: ApiClient) -> list[dict[str, Any]]:
    """The state of each partition's projection."""
    return client.get("/v1/admin/projections")["partitions"]


def lag_totals(rows: list[dict[str, Any]]) -> dict[str, int]:
    """The sums over all partitions."""
    return {name: sum(row[name] for row in rows) for name in ("lag", "to_embed", "dead_letters")}


def _ms_and_sequence(position: str) -> tuple[int, int]:
    ms, _, sequence = position.partition("-")
    return int(ms), int(sequence)


def head(client: ApiClient) -> str:
    """The position after the last event of the log; empty for an empty log."""
    return ",".join(f"{row['partition']}:{row['head']}" for row in projections_of(client))


def follow_log(
    client: ApiClient, output: Output, position: str, follow: bool = True, event_type: str = "", session: str = ""
) -> None:
    """Print events after `position`; with `follow`, until Ctrl-C."""
    try:
        for event in _events(client, position, follow, {"type": event_type, "session_id": session}):
            output.record(event)
            text = Text(when(event["recorded_at"], "%m-%d %H:%M:%S"), style="dim")
            text.append(f"  {event.get('type', '?'):<20}", style="cyan not dim")
            text.append(f"  {one_line(event.get('project', '') or '-', 20):<20}", style="not dim")
            text.append(f"  {one_line(event.get('agent_id', '') or '-', 12):<12}", style="bold not dim")
            # the event's own words if it has any, otherwise its data
            fields: dict[str, Any] = event.get("data") or {}
            words = next((str(fields[name]) for name in ("content", "title", "reason") if fields.get(name)), "")
            if not words:
                structure = fields.get("data") or fields
                words = msgspec.json.encode(structure).decode() if structure else event.get("session_id", "")
            output.line(text.append(f"  {one_line(words)}", style="not dim"))
    except KeyboardInterrupt:
        return


def _events(client: ApiClient, position: str, follow: bool, filters: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Events after a position: the existing ones in order of time, then, with `follow`, new ones."""
    pages: list[dict[str, Any]] = []
    for partition in range(MOST_PARTITIONS):
        params = {"after": position, "partition": partition, "limit": FIRST_PAGE, **filters}
        try:
            page = client.get("/v1/events", params)
        except ClientError as error:
            if error.field != "partition":
                raise
            break  # the first number that is refused is the count of partitions
        pages.append({"events": page["events"], "next": page["next"]})
    size = max(FIRST_PAGE, min(PAGE, HELD // max(1, len(pages))))
    reached: dict[int, str] = {}

    def events_of(partition: int, page: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Its events, a page at a time; sets the position after them."""
        token = position
        while (page["next"] or "") != token:
            yield from page["events"]
            token: str = page["next"] or ""
            page = client.get("/v1/events", {"after": token, "partition": partition, "limit": size, **filters})
        reached[partition] = next((part for part in token.split(",") if part.startswith(f"{partition}:")), "")

    yield from heapq.merge(*(events_of(*numbered) for numbered in enumerate(pages)), key=_recorded_at)
    position = ",".join(filter(None, (reached[partition] for partition in range(len(pages)))))
    while follow:
        page = client.get("/v1/events", {"after": position, "limit": PAGE, **filters})
        yield from sorted(page["events"], key=_recorded_at)
        if page["next"] in (None, "", position):
            time.sleep(POLL_S)
        position = page["next"] or position


def _recorded_at(event: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(event["recorded_at"])


@on_server
def health(output: Output, client: ApiClient) -> None:
    """Show whether reads and writes work, what is degraded, and key metrics. Exits 1 if the server is not ready."""
    status, state = client.look("/readyz")
    ready = status == 200
    checks: list[dict[str, Any]] = []
    if ready:
        try:
            checks = client.get("/v1/diagnose")["checks"]
        except ClientError as error:  # an isolated scope wants an agent
            output.note(f"no diagnosis: {error}")
    output.document({**state, "checks": checks})
    word = status_of(state)
    output.line(word, style=f"bold {_COLORS.get(word, 'red')}")
    if not ready:
        output.line(state["detail"])
    for condition in state.get("degraded", ()):
        output.line(f"{condition['code']}: {condition['message']}")
    for check in troubles_in(checks, state):
        output.line(f"{check['category']}/{check['name']}: {check['message']}")
    if "vitals" in state:
        rows = fields_table(figures(state["vitals"], state["lag"]))
        rows.columns[0].style = ""
        output.show(rows)
    if not ready:
        raise Failed


def troubles_in(checks: list[dict[str, Any]], state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The checks that failed, without the conditions that `/readyz` also reports."""
    conditions = {condition["message"] for condition in state.get("degraded", ())}
    return [check for check in checks if check["status"] != "pass" and check["message"] not in conditions]


def status_of(state: Mapping[str, Any]) -> str:
    """The server's state, from what `/readyz` answers; if it is not ready, the code of the problem."""
    if "code" in state:
        return state["code"]
    codes = {condition["code"] for condition in state.get("degraded", ())}
    return "catching up" if codes and codes <= BACKLOGS else state["status"]


def figures(vitals: Mapping[str, Any], lag: Mapping[str, int]) -> dict[str, str]:
    """Key metrics as text; unknown ones are left out."""
    used, limit = vitals["memory_used"], vitals["memory_limit"]
    free, age_s = vitals["disk_free"], vitals["snapshot_age_s"]
    pending, oldest = sum(lag.values()), f", the oldest for {vitals['oldest_pending_s']:.1f} s"
    state = {
        "workers": f"{vitals['workers']:,}",
        "pending": f"{pending:,} events{oldest if pending else ''}",
        "dead letters": f"{vitals['dead_letters']:,}",
        "to embed": f"{vitals['to_embed']:,}",
        "change feeds": f"{vitals['feed_entries']:,} entries",
        "memory": None if used is None else f"{mib(used)} {f'of {mib(limit)}' if limit else '(no limit)'}",
        "disk": None if free is None else f"{mib(free)} free",
        "newest snapshot": None if age_s is None else f"{age_s / 60:,.0f} minutes old",
    }
    return {name: value for name, value in state.items() if value is not None}


@on_server
def open_(
    output: Output,
    client: ApiClient,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open a browser, or only print the address.")
    ] = True,
) -> None:
    """Open the viewer in a browser, and print its address."""
    try:
        client.look("/readyz")
    except ClientError as error:
        if error.status != 401:  # the page asks for the key itself
            raise
    page = f"{client.url}/viewer"
    output.line(page)
    opened = browser and webbrowser.open(page)
    output.document({"url": page, "opened": opened})
    if browser and not opened:
        output.note("no browser is available here; open the address in one")
