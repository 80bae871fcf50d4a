"""`mnemolog demo`: ten agents work for nine days, in seconds; then the fleet is asked what it remembers.

Everything goes through the public HTTP API, as a fleet of real agents would. Playing it again stores nothing twice.
"""

import time
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from msgspec import Struct
from rich.console import Console, Group
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from api.cli.client import Client, ClientError
from api.cli.commands import AsJson, Url, connect, follow_log, head, lag_totals
from api.cli.fleet import Fleet, Question, build_fleet
from api.cli.output import FAILED, OK, Output, answering, one_line, plain

TOP = 3
"""An expected document further down than this is a miss."""
SEARCHABLE_S = 60.0
EMBEDDED_S = 20.0
PAUSE_S = 0.2
CONTEXT_LINES = 5
"""Of a block of the compiled context that a person is shown; all of it is in the JSON."""


class Played(Struct, frozen=True):
    """What became of the fleet's commands."""

    agents: int
    accepted: int
    duplicates: int
    seconds: float
    after: str


class Outcome(Struct, frozen=True, kw_only=True):
    """What one question found. `rank`: the expected document's place in the first `TOP`, 0 when it is not there."""

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


def demo(
    leave: Annotated[bool, typer.Option("--exit", help="End after the report instead of following the log.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Play a fleet of ten agents against a running server and show what it recalls. Exits 1 after a miss."""
    output = Output(as_json)
    with answering(output), connect(url) as client:
        code = _run(client, output)
        if not leave and not as_json:
            output.note("following the log; Ctrl-C ends it")
            follow_log(client, output, head(client))
    raise typer.Exit(code)


def run_demo(client: Client, console: Console, as_json: bool = False) -> int:
    """Play the demo and report; 0 when every question finds its document in the first three, else an exit code."""
    output = Output(as_json, console)
    try:
        return _run(client, output)
    except ClientError as error:
        output.error(error)
        return error.exit_code


def _run(client: Client, output: Output) -> int:
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


def _play(client: Client, output: Output, fleet: Fleet) -> Played:
    """Send every batch, day by day; raises ClientError when the server rejects something."""
    tokens: list[str] = []
    accepted = duplicates = 0
    started = time.perf_counter()
    with output.progress() as progress:
        task = progress.add_task("", total=len(fleet.commands))
        for batch in fleet.batches:
            progress.update(task, description=f"{batch.day}  {batch.agent:<6}")
            answer = client.post("/v1/events", batch.commands)
            if answer["rejected"]:
                first = answer["rejected"][0]
                raise ClientError(first["code"], f"the server rejected a command of the demo: {first['message']}")
            tokens.append(answer["position"])
            accepted += answer["accepted"]
            duplicates += answer["duplicates"]
            progress.advance(task, len(batch.commands))
    # a token of several tokens is their list: each names, for some partitions, how far a read must have come
    return Played(len(fleet.agents), accepted, duplicates, time.perf_counter() - started, ",".join(tokens))


def _wait_until_searchable(client: Client, after: str) -> list[str]:
    """Wait until a recall sees everything that was played; what recall must do without. Raises ClientError."""
    give_up = time.monotonic() + SEARCHABLE_S
    while True:
        try:
            answer = client.post("/v1/recall", {"query": "ready", "limit": 1, "after": after})
        except ClientError as error:
            if error.code != "projection_behind" or time.monotonic() > give_up:
                raise
        else:
            return answer["degraded"]


def _wait_until_embedded(client: Client) -> None:
    """Wait, but not for ever, until no text is without a vector: recall works before, only less well."""
    give_up = time.monotonic() + EMBEDDED_S
    while time.monotonic() < give_up:
        rows = client.get("/v1/admin/projections")["partitions"]
        if not any(row["to_embed"] for row in rows):
            return
        time.sleep(PAUSE_S)


def _ask(client: Client, question: Question, after: str) -> Outcome:
    request = {"query": question.text, "project": question.project, "limit": TOP, "after": after}
    answer = client.post("/v1/recall", request)
    results: list[dict[str, Any]] = answer["results"][:TOP]
    rank = next((place for place, result in enumerate(results, 1) if question.answered_by(result)), 0)
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
    """How the fleet was stored, and a table of what it was asked."""
    total = played.accepted + played.duplicates
    stored = f"{played.accepted} new, {played.duplicates} known already" if played.duplicates else "all new"
    projects = len({project for _, project in fleet.agents})
    table = Table("", "question, and what was found", "asked", "by", "score", "ms", box=None, header_style="bold")
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
            f"{played.agents} agents in {projects} projects said {total} things ({stored}) "
            f"in {played.seconds:.1f} s: {total / max(played.seconds, 0.001):,.0f} a second",
        ),
        "",
        table,
        "",
        Text(f"{hits} of {len(outcomes)} questions found their answer in the first {TOP}", style="bold"),
    )


def _report_rest(output: Output, fleet: Fleet, context: dict[str, Any], totals: dict[str, int], url: str) -> None:
    """A compiled context, the lag of the projections, and where to look next."""
    used = f"{context['tokens']} of {context['token_budget']} tokens"
    request = fleet.context
    title = f"context for {request['agent_id']}: “{request['query']}” ({used})"
    state = (
        f"{totals['partitions']} partitions, {totals['lag']} events behind, {totals['to_embed']} texts to embed, "
        f"{totals['dead_letters']} dead letters"
    )
    links = Table.grid(padding=(0, 2))
    for name, address in _urls(url).items():
        links.add_row(name, Text(address, style="cyan"))
    output.show(
        "",
        Panel(_shortened(context), title=Text(title), title_align="left"),
        Text(f"projections: {state}"),
        Group("look around:", Padding(links, (0, 0, 0, 2))),
    )


def _shortened(context: dict[str, Any]) -> Text:
    """A context's first block of each kind, a few lines of each; and how much more there is."""
    blocks: list[dict[str, Any]] = context["blocks"]
    first = {block["kind"]: block for block in reversed(blocks)}
    text = Text(no_wrap=True, overflow="ellipsis")
    for block in (block for block in blocks if block is first[block["kind"]]):
        heading, *lines = plain(block["text"]).splitlines()
        text.append(f"{heading.lstrip('# ')} ({block['tokens']} tokens)\n", style="bold")
        text.append("\n".join(lines[:CONTEXT_LINES]) + ("\n…\n\n" if len(lines) > CONTEXT_LINES else "\n\n"))
    more = len(blocks) - len(first)
    return text.append(f"and {more} blocks more" if more else "nothing else", style="dim")


def _urls(url: str) -> dict[str, str]:
    return {"API": f"{url}/v1", "MCP": f"{url}/mcp", "ready": f"{url}/readyz", "metrics": f"{url}/metrics"}
