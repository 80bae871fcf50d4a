"""`mnemolog context`: what an agent is told before it starts."""

from typing import Annotated, Any

import typer
from rich.text import Text

from api.cli.commands import AsJson, Url, connect, text_of
from api.cli.output import Output, answering, plain
from ingest.platform.clock import machine_zone


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command(epilog='Example: mnemolog context "change how refunds are paid" --project shop --tokens 800')(context)


def context(
    query: Annotated[str, typer.Argument(help="What the agent is about to do; `-` reads it from stdin.")] = "",
    project: Annotated[str, typer.Option("--project", "-p", help="Project it works on.", show_default="none")] = "",
    tokens: Annotated[int, typer.Option("--tokens", "-n", min=1, max=200_000, help="At most so many.")] = 2000,
    agent: Annotated[str, typer.Option("--agent", "-a", help="Read as this agent.")] = "",
    session: Annotated[str, typer.Option("--session", "-s", help="The agent's own session, which is left out.")] = "",
    user: Annotated[str, typer.Option("--user", help="Whose preferences it tells.")] = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Print what an agent is told before it starts, as it gets it. On stderr: how long it is, what had no room."""
    output = Output(as_json)
    body: dict[str, Any] = {
        "project": project,
        "query": text_of(query),
        "token_budget": tokens,
        "session_id": session,
        "user_id": user,
        "time_zone": machine_zone(),
    }
    with answering(output), connect(url, agent) as client:
        answer = client.post("/v1/context", body)
        output.document(answer)
        output.line(Text(plain(answer["context"])))
        for note in answer.get("notes", ()):
            output.note(plain(note))
        left_out = f"; no room for: {plain('; '.join(answer['left_out']))}" if answer["left_out"] else ""
        output.note(f"{answer['tokens']} of {answer['token_budget']} tokens{left_out}")
