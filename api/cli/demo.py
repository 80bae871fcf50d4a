"""`mnemolog demo`: plays nine days of work of ten agents in seconds, then asks questions about it.

It only uses the public HTTP API. The commands are in `api/cli/stories`, one native command per line, dated relative to
`TODAY`. Event ids are fixed, so playing it twice stores it once.
"""

import time
from datetime import UTC, date, datetime
from importlib.resources import files
from itertools import groupby
from typing import Annotated, Any

import msgspec
import typer
from msgspec import Struct
from rich.console import Console, Group
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from api.cli.client import ApiClient, ClientError
from api.cli.output import FAILED, OK, Output, one_line, plain
from api.cli.rows import on_server
from api.cli.server import follow_log, head, lag_totals

TODAY = date(2026, 1, 10)
"""The day after the last day of the stories."""
BATCH = 25
EVENT_KEY = "demo_event"
"""Metadata of every observation and memory: the id of its event."""

SEARCHABLE_S = 60.0
EMBEDDED_S = 60.0
PAUSE_S = 0.2
CONTEXT_LINES = 5
"""Lines shown of each context block; the JSON has all of it."""
TOP = 3
"""An expected document with a lower rank is a miss."""
SHOP, STATION, CLINIC = "shop-checkout", "ground-station", "clinic-scheduling"
_STORIES = ("checkout.jsonl", "ground_station.jsonl", "clinic.jsonl")


class DemoBatch(Struct, frozen=True):
    """Commands of one agent on one day, sent together."""

    agent: str
    day: str
    commands: list[dict[str, Any]]


class DemoQuestion(Struct, frozen=True):
    """A question of an agent, and what must be among the top answers."""

    text: str
    project: str
    asker: str
    event_id: str
    content: str

    def answered_by(self, result: dict[str, Any]) -> bool:
        """Whether a recalled document is the expected one; lessons match by their text."""
        metadata: dict[str, str] = result.get("metadata") or {}
        return metadata.get(EVENT_KEY) == self.event_id or result.get("content") == self.content


class Fleet(Struct, frozen=True):
    """Everything the demo plays and asks."""

    batches: list[DemoBatch]
    questions: list[DemoQuestion]
    context: dict[str, Any]

    @property
    def commands(self) -> list[dict[str, Any]]:
        """All commands, in sending order."""
        return [command for batch in self.batches for command in batch.commands]

    @property
    def agents(self) -> set[tuple[str, str]]:
        """The agents, each with its project."""
        return {(command["agent_id"], command["project"]) for command in self.commands}


CORRECTIONS = {
    "demo-129": "demo-26",
    "demo-141": "demo-93",
    "demo-273": "demo-193",
    "demo-295": "demo-286",
    "demo-413": "demo-346",
    "demo-427": "demo-332",
}
"""Revised memories by the event id of the revising command: their texts differ too much to count as duplicates."""
LISTED = 500

QUESTIONS = (
    ("why does the tax in the basket not add up to the tax on the bill?", SHOP, "dara", "demo-5"),
    ("how long do we wait for the card processor before giving up?", SHOP, "brook", "demo-129"),
    ("why was typed text lost on cheap phones?", SHOP, "cyrus", "demo-49"),
    ("how many pods should we plan for the next big sale?", SHOP, "ada", "demo-141"),
    ("which frequency shift made the receiver slow to lock on to the satellite?", STATION, "gus", "demo-162"),
    ("who disturbs our radio every Tuesday, and would they stop?", STATION, "eero", "demo-200"),
    ("what did we do with the antennas during the lightning?", STATION, "eero", "demo-292"),
    ("any advice before changing the receiver after a poor contact?", STATION, "gus", "demo-168"),
    ("after how many days are undecoded frames gone from the broker?", STATION, "fern", "demo-273"),
    ("why were imported visits not recognised as clashing with others?", CLINIC, "ivo", "demo-302"),
    ("what should strangers not learn when they read a patient's phone?", CLINIC, "juno", "demo-343"),
    ("after how much idle time does a ward computer lock itself?", CLINIC, "hana", "demo-427"),
)
"""Text, project, asker, and the event that answers, which uses other words."""

CONTEXT = {
    "project": SHOP,
    "agent_id": "ada",
    "session_id": "next-task",
    "query": "change how payments are retried",
    "token_budget": 5000,
}


def _day_and_agent(command: dict[str, Any]) -> tuple[str, str]:
    return command["occurred_at"][:10], command["agent_id"]


def build_fleet(now: datetime) -> Fleet:
    """The fleet, with its last day yesterday (UTC)."""
    later = now.date() - TODAY
    stories = (files("api.cli").joinpath("stories", name).read_bytes() for name in _STORIES)
    commands: list[dict[str, Any]] = [msgspec.json.decode(line) for story in stories for line in story.splitlines()]
    for command in commands:
        command["occurred_at"] = (datetime.fromisoformat(command["occurred_at"]) + later).isoformat()
    by_id = {command["event_id"]: command for command in commands}
    questions = [
        DemoQuestion(text, project, asker, event_id, by_id[event_id]["content"])
        for text, project, asker, event_id in QUESTIONS
    ]
    # by day and agent, in order of time, so that a replacement is sent after the memory it replaces
    ordered = sorted(commands, key=lambda command: (*_day_and_agent(command), command["occurred_at"]))
    batches: list[DemoBatch] = []
    for (day, agent), group in groupby(ordered, key=_day_and_agent):
        together = list(group)
        batches += [DemoBatch(agent, day, together[start : start + BATCH]) for start in range(0, len(together), BATCH)]
    return Fleet(batches, questions, CONTEXT)


class Played(Struct, frozen=True):
    """The outcome of sending the commands."""

    agents: int
    accepted: int
    duplicates: int
    seconds: float
    after: str


class Outcome(Struct, frozen=True, kw_only=True):
    """The result of one question. `rank`: the expected document's rank in the first `TOP`, 0 if it is not there."""

    question: str
    project: str
    asker: str
    expected: str
    found: str
    by: str
    score: float
    rank: int
    ms: float


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command(epilog="Example: mnemolog demo --exit")(demo)


@on_server
def demo(
    output: Output,
    client: ApiClient,
    leave: Annotated[bool, typer.Option("--exit", help="Exit after the report instead of following the log.")] = False,
) -> None:
    """Play a fleet of ten agents against a running server and show what it recalls. Exits 1 on a miss."""
    code = _run(client, output)
    if not leave and not output.as_json:
        output.note("following the log; Ctrl-C ends it")
        follow_log(client, output, head(client))
    raise typer.Exit(code)


def run_demo(client: ApiClient, console: Console, as_json: bool = False) -> int:
    """Play the demo and report; returns 0 if every question finds its document in the first three."""
    output = Output(as_json, console)
    try:
        return _run(client, output)
    except ClientError as error:
        output.error(error)
        return error.exit_code


def _run(client: ApiClient, output: Output) -> int:
    fleet = build_fleet(datetime.now(UTC))
    played = _play(client, output, fleet)
    degraded = _wait_until_searchable(client, played.after)
    _wait_until_embedded(client)
    outcomes = [_ask(client, question, played.after) for question in fleet.questions]
    context = client.post("/v1/context", fleet.context)
    rows: list[dict[str, Any]] = client.get("/v1/admin/projections")["partitions"]
    totals = {"partitions": len(rows), **lag_totals(rows)}
    missed = [outcome.question for outcome in outcomes if not outcome.rank]
    output.document(
        {
            "agents": played.agents,
            "accepted": played.accepted,
            "duplicates": played.duplicates,
            "seconds": round(played.seconds, 3),
            "questions": outcomes,
            "missed": missed,
            "degraded": degraded,
            "context": context,
            "lag": totals,
            "urls": _urls(client.url),
        }
    )
    _report(output, fleet, played, outcomes)
    _report_rest(output, fleet, context, totals, client.url)
    for reason in degraded:
        output.note(f"degraded: {reason}")
    for question in missed:
        output.note(f"missed: {question}")
    return FAILED if missed else OK


def _play(client: ApiClient, output: Output, fleet: Fleet) -> Played:
    """Send every batch, by day; raises ClientError if the server rejects a command."""
    tokens: list[str] = []
    accepted = duplicates = 0
    started = time.perf_counter()
    with output.progress() as progress:
        task = progress.add_task("", total=len(fleet.commands))
        for batch in fleet.batches:
            progress.update(task, description=f"{batch.day}  {batch.agent:<6}")
            corrections = [command for command in batch.commands if command["event_id"] in CORRECTIONS]
            answer = client.post("/v1/events", [command for command in batch.commands if command not in corrections])
            if answer["rejected"]:
                first = answer["rejected"][0]
                raise ClientError(first["code"], f"the server rejected a command of the demo: {first['message']}")
            tokens.append(answer["position"])
            accepted += answer["accepted"]
            duplicates += answer["duplicates"]
            if corrections:  # the corrected memories may not be listed yet
                _wait_until_searchable(client, ",".join(tokens))
            for command in corrections:
                listed = client.get("/v1/memories", {"project": command["project"], "limit": LISTED})
                name = CORRECTIONS[command["event_id"]]
                memory = next((memory["id"] for memory in listed["items"] if memory["event_id"] == name), None)
                if memory is None:  # deleted since the demo was played before
                    message = f"the demo memory {name}, which {command['event_id']} corrects, is missing"
                    raise ClientError("not_found", message)
                fields = {field: command[field] for field in ("event_id", "agent_id", "content")}
                revised = client.patch(f"/v1/memories/{memory}", fields)
                tokens.append(revised["position"])
                accepted += not revised["duplicate"]
                duplicates += revised["duplicate"]
            progress.advance(task, len(batch.commands))
    # positions are joined with commas: a read then waits for all of them
    return Played(len(fleet.agents), accepted, duplicates, time.perf_counter() - started, ",".join(tokens))


def _wait_until_searchable(client: ApiClient, after: str) -> list[str]:
    """Wait until recall sees everything; returns why recall is degraded. Raises ClientError."""
    give_up = time.monotonic() + SEARCHABLE_S
    while True:
        try:
            answer = client.post("/v1/recall", {"query": "ready", "limit": 1, "after": after})
        except ClientError as error:
            if error.code != "projection_behind" or time.monotonic() > give_up:
                raise
        else:
            return answer["degraded"]


def _wait_until_embedded(client: ApiClient) -> None:
    """Wait up to EMBEDDED_S for all vectors: recall works without them, but less well."""
    give_up = time.monotonic() + EMBEDDED_S
    while time.monotonic() < give_up:
        rows = client.get("/v1/admin/projections")["partitions"]
        if not any(row["to_embed"] for row in rows):
            return
        time.sleep(PAUSE_S)


def _ask(client: ApiClient, question: DemoQuestion, after: str) -> Outcome:
    request = {"query": question.text, "project": question.project, "limit": TOP, "after": after}
    answer = client.post("/v1/recall", request)
    results: list[dict[str, Any]] = answer["results"][:TOP]
    rank = next((rank for rank, result in enumerate(results, 1) if question.answered_by(result)), 0)
    shown = results[max(0, rank - 1)] if results else {}
    return Outcome(
        question=question.text,
        project=question.project,
        asker=question.asker,
        expected=question.content,
        found=shown.get("content") or shown.get("title") or "",
        by=shown.get("agent_id") or "",
        score=shown.get("score", 0.0),
        rank=rank,
        ms=answer["took_ms"],
    )


def _report(output: Output, fleet: Fleet, played: Played, outcomes: list[Outcome]) -> None:
    """A summary of the writes, and a table of the questions."""
    total = played.accepted + played.duplicates
    stored = f"{played.accepted} new, {played.duplicates} already known" if played.duplicates else "all new"
    projects = len({project for _, project in fleet.agents})
    table = Table("", "question, and answer", "asked", "by", "score", "ms", box=None, header_style="bold")
    for column in table.columns[4:]:
        column.justify = "right"
    for outcome in outcomes:
        hit = Text(f"hit #{outcome.rank}", style="green") if outcome.rank else Text("miss", style="bold red")
        text = Text(outcome.question, style="bold").append(
            "\n" + one_line(outcome.found or "nothing", 220), style="not bold default"
        )
        table.add_row(hit, text, outcome.asker, outcome.by, f"{outcome.score:.2f}", f"{outcome.ms:.0f}")
    hits = sum(1 for outcome in outcomes if outcome.rank)
    output.show(
        Text(
            f"{played.agents} agents in {projects} projects recorded {total} items ({stored}) "
            f"in {played.seconds:.1f} s: {total / max(played.seconds, 0.001):,.0f} per second"
        ),
        "",
        table,
        "",
        Text(f"{hits} of {len(outcomes)} questions found their answer in the first {TOP}", style="bold"),
    )


def _report_rest(output: Output, fleet: Fleet, context: dict[str, Any], totals: dict[str, int], url: str) -> None:
    """The first lines of the first block of each kind of a compiled context, the lag, and links."""
    blocks: list[dict[str, Any]] = context["blocks"]
    first = {block["kind"]: block for block in reversed(blocks)}
    text = Text(no_wrap=True, overflow="ellipsis")
    for block in (block for block in blocks if block is first[block["kind"]]):
        heading, *lines = plain(block["text"]).splitlines()
        text.append(f"{heading.lstrip('# ')} ({block['tokens']} tokens)\n", style="bold")
        text.append("\n".join(lines[:CONTEXT_LINES]) + ("\n…\n\n" if len(lines) > CONTEXT_LINES else "\n\n"))
    more = len(blocks) - len(first)
    text.append(f"and {more} more blocks" if more else "no other blocks", style="dim")
    used = f"{context['tokens']} of {context['token_budget']} tokens"
    request = fleet.context
    title = f"context for {request['agent_id']}: “{request['query']}” ({used})"
    state = (
        f"{totals['partitions']} partitions, {totals['lag']} events pending, {totals['to_embed']} texts to embed, "
        f"{totals['dead_letters']} dead letters"
    )
    links = Table.grid(padding=(0, 2))
    for name, address in _urls(url).items():
        links.add_row(name, Text(address, style="cyan"))
    output.show(
        "",
        Panel(text, title=Text(title), title_align="left"),
        Text(f"projections: {state}"),
        Group("explore:", Padding(links, (0, 0, 0, 2))),
    )


def _urls(url: str) -> dict[str, str]:
    return {
        "viewer": f"{url}/viewer",
        "API": f"{url}/v1",
        "MCP": f"{url}/mcp",
        "ready": f"{url}/readyz",
        "metrics": f"{url}/metrics",
    }
