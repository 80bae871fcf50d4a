"""`mnemolog admin demo`: plays nine days of work of ten agents in seconds, then asks questions about it.

It only uses the public HTTP API. The commands are in `api/cli/stories`, one native command per line, dated relative to
`TODAY`; one that `corrects` the memory of another event revises it, because their texts differ too much to count as
duplicates. Event ids are fixed, so playing it twice stores it once. The questions are answered in other words.
"""

import sys
import time
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from itertools import groupby
from typing import Annotated, Any, TypeVar

import msgspec
import typer
from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console, Group
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from api.cli.client import ApiClient
from api.cli.errors import ClientError
from api.cli.output import FAILED, OK, Output, one_line
from api.cli.rows import add, on_server
from api.cli.server import follow_log, head, lag_totals, projections_of

T = TypeVar("T")

WEEK = timedelta(days=7)
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
    content: str = ""

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


LISTED = 500

CONTEXT = {
    "project": "shop-checkout",
    "agent_id": "ada",
    "session_id": "next-task",
    "query": "change how payments are retried",
    "token_budget": 5000,
}


def _day_and_agent(command: dict[str, Any]) -> tuple[str, str]:
    return command["occurred_at"][:10], command["agent_id"]


def build_fleet(now: datetime) -> Fleet:
    """The fleet; its last day is one to seven days ago (UTC)."""
    # whole weeks: the stories name weekdays, which have to be those of their dates
    later = (now.date() - TODAY) // WEEK * WEEK
    commands: list[dict[str, Any]] = [command for name in _STORIES for command in _lines(name, dict[str, Any])]
    for command in commands:
        command["occurred_at"] = (datetime.fromisoformat(command["occurred_at"]) + later).isoformat()
    by_id = {command["event_id"]: command for command in commands}
    questions = [
        replace(question, content=by_id[question.event_id]["content"])
        for question in _lines("questions.jsonl", DemoQuestion)
    ]
    # by day and agent, in order of time, so that a replacement is sent after the memory it replaces
    ordered = sorted(commands, key=lambda command: (*_day_and_agent(command), command["occurred_at"]))
    batches: list[DemoBatch] = []
    for (day, agent), group in groupby(ordered, key=_day_and_agent):
        together = list(group)
        batches += [DemoBatch(agent, day, together[start : start + BATCH]) for start in range(0, len(together), BATCH)]
    return Fleet(batches, questions, CONTEXT)


def _lines(name: str, kind: type[T]) -> list[T]:
    return msgspec.json.Decoder(kind).decode_lines(files("api.cli").joinpath("stories", name).read_bytes())


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    add(app, demo, "demo --exit")


@on_server
def demo(
    output: Output,
    client: ApiClient,
    leave: Annotated[
        bool, typer.Option("--exit", help="Exit after the report, as without a terminal; do not follow the log.")
    ] = False,
) -> None:
    """Play a fleet of ten agents against a running server and show what it recalls. Exits 1 on a miss."""
    code = _run(client, output)
    if not leave and not output.as_json and sys.stdout.isatty():
        output.note("following the log; Ctrl-C ends it")
        follow_log(client, output, head(client))
    raise typer.Exit(code)


def run_demo(client: ApiClient, console: Console) -> int:
    """Play the demo and report; returns 0 if every question finds its document in the first three."""
    output = Output(console=console)
    try:
        return _run(client, output)
    except ClientError as error:
        output.error(error)
        return error.exit_code


def _run(client: ApiClient, output: Output) -> int:
    fleet = build_fleet(datetime.now(UTC))
    started = time.perf_counter()
    accepted, duplicates, after = _play(client, output, fleet)
    seconds = time.perf_counter() - started
    degraded = _wait_until_searchable(client, after)
    # recall works without vectors, but less well
    give_up = time.monotonic() + EMBEDDED_S
    while time.monotonic() < give_up and any(row["to_embed"] for row in projections_of(client)):
        time.sleep(PAUSE_S)
    outcomes = [_ask(client, question, after) for question in fleet.questions]
    context = client.post("/v1/context", fleet.context)
    rows = projections_of(client)
    totals = {"partitions": len(rows), **lag_totals(rows)}
    missed = [outcome["question"] for outcome in outcomes if not outcome["rank"]]
    names = {"viewer": "/viewer", "API": "/v1", "MCP": "/mcp", "ready": "/readyz", "metrics": "/metrics"}
    urls = {name: client.url + path for name, path in names.items()}
    counts = {"agents": len(fleet.agents), "accepted": accepted, "duplicates": duplicates}
    output.document(
        {
            **counts, "seconds": round(seconds, 3), "questions": outcomes, "missed": missed, "degraded": degraded,
            "context": context, "lag": totals, "urls": urls,
        }
    )  # fmt: skip
    total = accepted + duplicates
    stored = f"{accepted} new, {duplicates} already known" if duplicates else "all new"
    projects = len({project for _, project in fleet.agents})
    output.show(
        Text(
            f"{len(fleet.agents)} agents in {projects} projects recorded {total} items ({stored}) "
            f"in {seconds:.1f} s: {total / max(seconds, 0.001):,.0f} per second"
        ),
        "",
        _outcomes_table(outcomes),
        "",
        Text(f"{len(outcomes) - len(missed)} of {len(outcomes)} questions found their answer in the first {TOP}",
            style="bold"),
        "",
        _context_panel(fleet.context, context),
        Text(
            f"projections: {totals['partitions']} partitions, {totals['lag']} events pending, "
            f"{totals['to_embed']} texts to embed, {totals['dead_letters']} dead letters"
        ),
        Group("explore:", Padding(_links(urls), (0, 0, 0, 2))),
    )  # fmt: skip
    for reason in degraded:
        output.note(f"degraded: {reason}")
    for question in missed:
        output.note(f"missed: {question}")
    return FAILED if missed else OK


def _play(client: ApiClient, output: Output, fleet: Fleet) -> tuple[int, int, str]:
    """Send every batch, by day; returns the counts of new and of known events, and the position after all of them.

    Raises ClientError if the server rejects a command.
    """
    tokens: list[str] = []
    accepted = duplicates = 0
    with output.progress() as progress:
        task = progress.add_task("", total=len(fleet.commands))
        for batch in fleet.batches:
            progress.update(task, description=f"{batch.day}  {batch.agent:<6}")
            corrections = [command for command in batch.commands if "corrects" in command]
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
                revised = _correct(client, command)
                tokens.append(revised["position"])
                accepted += not revised["duplicate"]
                duplicates += revised["duplicate"]
            progress.advance(task, len(batch.commands))
    # positions are joined with commas: a read then waits for all of them
    return accepted, duplicates, ",".join(tokens)


def _correct(client: ApiClient, command: dict[str, Any]) -> Any:
    listed = client.get("/v1/memories", {"project": command["project"], "limit": LISTED})
    name = command["corrects"]
    memory = next((memory["id"] for memory in listed["items"] if memory["event_id"] == name), None)
    if memory is None:  # deleted since the demo was played before
        raise ClientError("not_found", f"the demo memory {name}, which {command['event_id']} corrects, is missing")
    fields = {field: command[field] for field in ("event_id", "agent_id", "content")}
    return client.patch(f"/v1/memories/{memory}", fields)


def _wait_until_searchable(client: ApiClient, after: str) -> list[str]:
    """Wait until recall sees everything; returns why recall is degraded. Raises ClientError."""
    give_up = time.monotonic() + SEARCHABLE_S
    while True:
        try:
            return client.post("/v1/recall", {"query": "ready", "limit": 1, "after": after})["degraded"]
        except ClientError as error:
            if error.code != "projection_behind" or time.monotonic() > give_up:
                raise


def _ask(client: ApiClient, question: DemoQuestion, after: str) -> dict[str, Any]:
    """The result of one question. `rank`: the expected document's rank in the first `TOP`, 0 if it is not there."""
    request = {"query": question.text, "project": question.project, "limit": TOP, "after": after}
    answer = client.post("/v1/recall", request)
    results: list[dict[str, Any]] = answer["results"][:TOP]
    rank = next((rank for rank, result in enumerate(results, 1) if question.answered_by(result)), 0)
    best = results[max(0, rank - 1)] if results else {}
    return {
        "question": question.text,
        "project": question.project,
        "asker": question.asker,
        "expected": question.content,
        "found": best.get("content") or best.get("title") or "",
        "by": best.get("agent_id") or "",
        "score": best.get("score", 0.0),
        "rank": rank,
        "ms": answer["took_ms"],
    }


def _outcomes_table(outcomes: list[dict[str, Any]]) -> Table:
    table = Table("", "question, and answer", "asked", "by", "score", "ms", box=None, header_style="bold")
    for column in table.columns[4:]:
        column.justify = "right"
    for outcome in outcomes:
        hit = Text(f"hit #{outcome['rank']}", style="green") if outcome["rank"] else Text("miss", style="bold red")
        answer = "\n" + one_line(outcome["found"] or "nothing", 220)
        text = Text(outcome["question"], style="bold").append(answer, style="not bold default")
        score, ms = f"{outcome['score']:.2f}", f"{outcome['ms']:.0f}"
        table.add_row(hit, text, outcome["asker"], outcome["by"], score, ms)
    return table


def _context_panel(request: dict[str, Any], context: dict[str, Any]) -> Panel:
    """The first lines of the first block of each kind of a compiled context."""
    blocks: list[dict[str, Any]] = context["blocks"]
    first = {block["kind"]: block for block in reversed(blocks)}
    text = Text(no_wrap=True, overflow="ellipsis")
    for block in (block for block in blocks if block is first[block["kind"]]):
        heading, *lines = block["text"].splitlines()
        text.append(f"{heading.lstrip('# ')} ({block['tokens']} tokens)\n", style="bold")
        text.append("\n".join(lines[:CONTEXT_LINES]) + ("\n…\n\n" if len(lines) > CONTEXT_LINES else "\n\n"))
    more = len(blocks) - len(first)
    text.append(f"and {more} more blocks" if more else "no other blocks", style="dim")
    used = f"{context['tokens']} of {context['token_budget']} tokens"
    title = f"context for {request['agent_id']}: “{request['query']}” ({used})"
    return Panel(text, title=Text(title), title_align="left")


def _links(urls: dict[str, str]) -> Table:
    links = Table.grid(padding=(0, 2))
    for name, address in urls.items():
        links.add_row(name, Text(address, style="cyan"))
    return links
