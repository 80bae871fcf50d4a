"""Commands for people and scripts that talk to a running server."""

import heapq
import os
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from api.cli.client import ApiClient, ClientError
from api.cli.output import FAILED, Output, answering, one_line, plain
from ingest.platform.addresses import client_key
from ingest.platform.clock import machine_zone
from ingest.platform.settings import from_environment

POLL_S = 1.0
"""Between two looks at the head of the log; a look reads every partition."""
PAGE = 500
MOST_PARTITIONS = 1024
FIRST_PAGE, HELD = 20, 10_000
"""Events of a partition that are held while its first are asked for; of all partitions while they are put in order."""

Url = Annotated[
    str | None,
    typer.Option("--url", envvar="MNEMOLOG_URL", help="Server to talk to.", show_default="http://127.0.0.1:3111"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Project = Annotated[str, typer.Option("--project", "-p", help="Project it belongs to.")]
AgentName = Annotated[str, typer.Option("--agent", "-a", help="Agent who says it.")]
EventName = Annotated[str, typer.Option(help="Name of the event; sending the same name again stores nothing twice.")]
Tags = Annotated[list[str], typer.Option("--tags", "-t", help="Comma-separated; may be repeated.")]
Content = Annotated[str, typer.Argument(help="The text; `-` reads it from stdin.")]


class RecallKind(StrEnum):
    """What recall can find (an enum, because typer takes no list of literals)."""

    OBSERVATION = "observation"
    MEMORY = "memory"
    LESSON = "lesson"
    SUMMARY = "summary"


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    app.command(epilog='Example: mnemolog observe "tests are red again" --project shop --session s1')(observe)
    app.command(epilog='Example: mnemolog remember "We deploy on Tuesdays" --project shop --tags deploy')(remember)
    app.command(epilog='Example: mnemolog lesson "Sum first, round last" --project shop')(lesson)
    app.command(epilog='Example: mnemolog recall "when do we deploy?" --project shop --limit 3')(recall)
    app.command(epilog="Example: mnemolog tail --json --no-follow --type memory.recorded")(tail)
    app.command(epilog="Example: mnemolog lag --max 1000")(lag)


def connect(url: str | None, agent: str = "") -> ApiClient:
    """A client for the server that the option, else the environment names; raises InvalidSetting or InvalidUrl."""
    server = url or from_environment(os.environ).url
    return ApiClient(server, client_key(server, os.environ), agent=agent)


def observe(
    text: Annotated[str, typer.Argument(help="What was seen or done; `-` reads it from stdin.")] = "",
    session: Annotated[str, typer.Option("--session", "-s", help="Session it happened in.")] = "cli",
    project: Project = "",
    agent: AgentName = "",
    kind: Annotated[str, typer.Option("--kind", "-k", help="note, decision, error, ...")] = "",
    event_id: EventName = "",
    data: Annotated[str, typer.Option(help="Structure to keep with it: a JSON object.")] = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Record what an agent saw or did in a session."""
    command = {
        "content": text_of(text),
        "session_id": session,
        "project": project,
        "agent_id": agent,
        "kind": kind,
        "event_id": event_id,
        "data": _json_object(data),
    }
    write("/v1/observations", command, "observed", url, as_json)


def remember(
    text: Content,
    project: Project = "",
    agent: AgentName = "",
    tags: Tags = [],  # noqa: B006 - typer copies it
    memory_type: Annotated[
        Literal["episodic", "semantic", "procedural"], typer.Option("--type", help="What kind of memory.")
    ] = "semantic",
    importance: Annotated[float, typer.Option(min=0, max=10, help="0 to 10.")] = 5.0,
    private: Annotated[bool, typer.Option("--private", help="Only --agent may recall it.")] = False,
    shared_with: Annotated[str, typer.Option(help="Comma-separated agents who, with --agent, may recall it.")] = "",
    ttl_days: Annotated[float | None, typer.Option(help="Not recalled any more after so many days.")] = None,
    event_id: EventName = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Save a long-term memory. It replaces an older one of the same agent that states the same."""
    if private and shared_with:
        raise typer.BadParameter("--private and --shared-with exclude each other")
    visibility = "private" if private else "shared" if shared_with else "public"
    if visibility != "public" and not agent:
        raise typer.BadParameter(f"a {visibility} memory needs --agent, or nobody could read it")
    command = {
        "content": text_of(text),
        "project": project,
        "agent_id": agent,
        "tags": names_in(tags),
        "memory_type": memory_type,
        "importance": importance,
        "visibility": visibility,
        "shared_with": names_in([shared_with]),
        "event_id": event_id,
        "ttl_days": ttl_days,
    }
    write("/v1/memories", command, "remembered", url, as_json)


def lesson(
    text: Content,
    project: Project = "",
    agent: AgentName = "",
    context: Annotated[str, typer.Option(help="Where it was learned, or when it applies.")] = "",
    confidence: Annotated[float, typer.Option(min=0, max=1, help="How sure, 0 to 1.")] = 0.5,
    tags: Tags = [],  # noqa: B006 - typer copies it
    event_id: EventName = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """State something learned; saying it again makes it stronger."""
    command = {
        "content": text_of(text),
        "project": project,
        "agent_id": agent,
        "context": context,
        "confidence": confidence,
        "tags": names_in(tags),
        "event_id": event_id,
    }
    write("/v1/lessons", command, "learned", url, as_json)


def recall(
    query: Annotated[str, typer.Argument(help="What to look for; `-` reads it from stdin.")],
    project: Annotated[str | None, typer.Option("--project", "-p", help="Search only this project.")] = None,
    agent: Annotated[str, typer.Option("--agent", "-a", help="Read as this agent: finds its private memories.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200)] = 10,
    kind: Annotated[list[RecallKind], typer.Option("--kind", "-k", help="Search only these; may be repeated.")] = [],  # noqa: B006 - typer copies it
    mode: Annotated[Literal["hybrid", "lexical", "vector"], typer.Option(help="Words, meaning, or both.")] = "hybrid",
    min_confidence: Annotated[
        float | None, typer.Option(min=0, max=1, help="How sure results must be; 0 shows the nearest whatever it is.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show how each score came about.")] = False,
    after: Annotated[str, typer.Option(help="Wait until this position (a write prints it) can be found.")] = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Find the right memories for a query. Exits 1 when there is none."""
    output = Output(as_json)
    request: dict[str, Any] = {"query": text_of(query), "kinds": kind, "limit": limit, "mode": mode, "explain": explain}
    request |= {"project": project, "after": after, "min_confidence": min_confidence, "time_zone": machine_zone()}
    with answering(output), connect(url, agent) as client:
        answer = client.post("/v1/recall", request)
    output.document(answer)
    for reason in answer["degraded"]:
        output.note(f"degraded: {reason}")
    for note in answer.get("notes", ()):
        output.note(plain(note))
    if not answer["results"]:
        sure = answer["confidence"]
        near = "" if sure is None else f": the nearest is {sure:.0%} sure; --min-confidence 0 shows it"
        output.note(f"nothing known answers that{near}")
        raise typer.Exit(FAILED)
    output.show(results_table(answer["results"]), f"{len(answer['results'])} in {answer['took_ms']:.0f} ms")


def tail(
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Wait for more at the end.")] = True,
    after: Annotated[
        str, typer.Option(help="`start`, `now` or a position. Default: now when following, else start.")
    ] = "",
    event_type: Annotated[str, typer.Option("--type", help="Only this type, e.g. memory.recorded.")] = "",
    session: Annotated[str, typer.Option("--session", "-s", help="Only this session.")] = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Print the log, one event a line, in the order of time, and then as it grows. Ctrl-C ends it."""
    output = Output(as_json)
    with answering(output), connect(url) as client:
        position = after or ("now" if follow else "start")
        if position == "now":
            position = head(client)
        follow_log(client, output, "" if position == "start" else position, follow, event_type, session)


def lag(
    most: Annotated[int | None, typer.Option("--max", min=0, help="Exit 1 when more events than this wait.")] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show how far behind the projections are, partition by partition."""
    output = Output(as_json)
    with answering(output), connect(url) as client:
        rows: list[dict[str, Any]] = client.get("/v1/admin/projections")["partitions"]
    totals = lag_totals(rows)
    output.document({"partitions": rows, **totals})
    output.show(_lag_table(rows, totals))
    if not any(row["worker"] for row in rows):
        output.note("no worker holds a partition: nothing is being projected")
    if most is not None and totals["lag"] > most:
        output.note(f"{totals['lag']} events wait; the limit is {most}")
        raise typer.Exit(FAILED)


def head(client: ApiClient) -> str:
    """The position after the last event of the log; empty for an empty log."""
    rows: list[dict[str, Any]] = client.get("/v1/admin/projections")["partitions"]
    return ",".join(f"{row['partition']}:{row['head']}" for row in rows)


def follow_log(
    client: ApiClient, output: Output, position: str, follow: bool = True, event_type: str = "", session: str = ""
) -> None:
    """Print events after `position`; with `follow`, until Ctrl-C."""
    try:
        for event in _events(client, position, follow, {"type": event_type, "session_id": session}):
            output.record(event)
            output.line(_event_line(event))
    except KeyboardInterrupt:
        return


def lag_totals(rows: list[dict[str, Any]]) -> dict[str, int]:
    """The sums over all partitions."""
    return {name: sum(row[name] for row in rows) for name in ("lag", "to_embed", "dead_letters")}


def results_table(results: list[dict[str, Any]]) -> Table:
    """Recalled documents, best first; with the terms of each score when they were asked for."""
    table = Table("sure", "kind", "agent", "when", "what", box=None, pad_edge=False, header_style="bold")
    table.columns[0].justify = "right"
    for result in results:
        what = Text(result["snippet"] or result["title"])
        if more := len(result.get("repeats", ())):
            what.append(f" (and {more} more like it)", style="dim")
        what.append(f"\n{result['id']}", style="dim")
        if terms := result.get("explain"):
            what.append("\n" + "  ".join(f"{plain(name)} {value:.2f}" for name, value in terms.items()), style="dim")
        table.add_row(
            _sure(result),
            result["kind"],
            Text(one_line(result["agent_id"] or "", 24)),
            when(result["occurred_at"], "%Y-%m-%d"),
            what,
        )
    return table


def _sure(result: dict[str, Any]) -> str:
    """How sure a result is an answer; where that is not known its score, which compares within one answer only."""
    return f"{result['confidence']:.0%}" if "confidence" in result else f"{result['score']:.3f}"


def write(path: str, command: dict[str, Any], done: str, url: str | None, as_json: bool) -> None:
    """Send one command, and say what it became; what is empty is left out."""
    output = Output(as_json)
    sent = {name: value for name, value in command.items() if value not in ("", None, [], {})}
    with answering(output), connect(url) as client:
        accepted = client.write(path, sent)
    output.document(accepted)
    known = " (known already, nothing new stored)" if accepted["duplicate"] else ""
    output.line(Text(f"{done} {accepted['id']} at {accepted['position']}{known}"))


def _events(client: ApiClient, position: str, follow: bool, wanted: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Events after a position: those there are, in the order of time, then, with `follow`, new ones."""
    pages = _first_pages(client, position, wanted)
    size = max(FIRST_PAGE, min(PAGE, HELD // max(1, len(pages))))
    parts = [_PartitionTail(client, number, position, page, size, wanted) for number, page in enumerate(pages)]
    yield from heapq.merge(*parts, key=_recorded_at)
    position = ",".join(filter(None, (part.reached for part in parts)))
    while follow:
        page = client.get("/v1/events", {"after": position, "limit": PAGE, **wanted})
        yield from sorted(page["events"], key=_recorded_at)
        reached: str = page["next"] or position
        if reached == position:
            time.sleep(POLL_S)
        position = reached


class _PartitionTail:
    """The events of one partition, read a page at a time. `reached` is the position after those that were returned."""

    def __init__(
        self, client: ApiClient, number: int, after: str, first: dict[str, Any], size: int, wanted: dict[str, str]
    ) -> None:
        """`first` is the page after `after`; the others have `size` events."""
        self._client, self._number, self._after, self._page = client, number, after, first
        self._params = {"partition": number, "limit": size, **wanted}
        self.reached = ""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        token = self._after
        while (self._page["next"] or "") != token:
            yield from self._page["events"]
            token: str = self._page["next"] or ""
            self._page = self._client.get("/v1/events", {"after": token, **self._params})
        own = f"{self._number}:"
        self.reached = next((part for part in token.split(",") if part.startswith(own)), "")


def _first_pages(client: ApiClient, position: str, wanted: dict[str, str]) -> list[dict[str, Any]]:
    """A small page of each partition; how many there are is known when there is no other."""
    pages: list[dict[str, Any]] = []
    for partition in range(MOST_PARTITIONS):
        params = {"after": position, "partition": partition, "limit": FIRST_PAGE, **wanted}
        try:
            page = client.get("/v1/events", params)
        except ClientError as error:
            if error.field != "partition":
                raise
            break
        pages.append({"events": page["events"], "next": page["next"]})
    return pages


def _recorded_at(event: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(event["recorded_at"])


def _event_line(event: dict[str, Any]) -> Text:
    """Time, type, project, agent and text of an event, in columns."""
    text = Text(when(event["recorded_at"], "%m-%d %H:%M:%S"), style="dim")
    text.append(f"  {plain(event.get('type', '?')):<20}", style="cyan not dim")
    text.append(f"  {one_line(event.get('project', '') or '-', 20):<20}", style="not dim")
    text.append(f"  {one_line(event.get('agent_id', '') or '-', 12):<12}", style="bold not dim")
    return text.append(f"  {one_line(_event_text(event))}", style="not dim")


def _event_text(event: dict[str, Any]) -> str:
    """What an event says, in its own words where it has any."""
    fields: dict[str, Any] = event.get("data") or {}
    for name in ("content", "title", "reason"):
        if fields.get(name):
            return str(fields[name])
    structure = fields.get("data") or fields
    return msgspec.json.encode(structure).decode() if structure else event.get("session_id", "")


def _lag_table(rows: list[dict[str, Any]], totals: dict[str, int]) -> Table:
    names = ("partition", "lag", "to embed", "dead letters", "searchable", "worker")
    table = Table(*names, box=None, pad_edge=False, header_style="bold", show_footer=True)
    for column in table.columns[:4]:
        column.justify = "right"
    for row in rows:
        wait_for_own_writes = _place(row["searchable"]) >= _place(row["head"])
        dead = Text(str(row["dead_letters"]), style="red" if row["dead_letters"] else "")
        searchable = Text("all", style="green") if wait_for_own_writes else Text(row["searchable"], style="yellow")
        worker = one_line(row["worker"] or "none", 40)
        table.add_row(str(row["partition"]), str(row["lag"]), str(row["to_embed"]), dead, searchable, worker)
    for column, total in zip(table.columns, ("all", *totals.values()), strict=False):
        column.footer = str(total)
    return table


def _place(position: str) -> tuple[int, int]:
    ms, _, sequence = position.partition("-")
    return int(ms), int(sequence)


def when(text: str, form: str) -> str:
    """A time of the server's in this machine's zone; as it is when it is none."""
    try:
        return datetime.fromisoformat(text).astimezone().strftime(form)
    except ValueError:
        return plain(text)


def text_of(text: str) -> str:
    """The text of an argument, `-` being what stdin has."""
    return sys.stdin.read() if text == "-" else text


def names_in(values: list[str]) -> list[str]:
    """The names of comma lists."""
    return [name.strip() for names in values for name in names.split(",") if name.strip()]


def _json_object(text: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise typer.BadParameter(f"--data must be a JSON object: {error}") from None
