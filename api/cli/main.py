"""The command line: `mnemolog`. A command's module is imported only when that command runs."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Annotated, Any, NamedTuple, NoReturn

import typer

from api.cli.usage import usage_error
from ingest.errors import MnemologError
from ingest.platform.processes import release


class Listed(NamedTuple):
    """A command as the help lists it: its module in this package, and the start of its own help."""

    module: str
    summary: str


PANELS: Mapping[str, Mapping[str, Listed]] = {
    "Start here": {
        "up": Listed("processes", "Run everything one machine needs, until Ctrl-C."),
        "demo": Listed("demo", "Play a fleet of ten agents against a running server and show what it recalls."),
        "observe": Listed("nouns", "Record what an agent saw or did in a session."),
        "remember": Listed("nouns", "Save a long-term memory. A near-duplicate replaces the agent's older one."),
        "recall": Listed("nouns", "Find the right memories for a query."),
        "context": Listed("nouns", "Print the context an agent receives at session start."),
        "install": Listed(
            "install",
            "Configure a coding agent to use mnemolog (MCP server, rules, hooks), or run the server as a service.",
        ),
        "open": Listed("server", "Open the viewer in a browser, and print its address."),
        "doctor": Listed("doctor", "Check this machine and the server, and suggest fixes."),
    },
    "Documents": {
        "show": Listed("show", "Show a document in full, with its author, time and sources."),
        "sessions": Listed("show", "Agents' sessions: list them, or show one with its summary and turns."),
        "memories": Listed("nouns", "Long-term memories: list, history, revise."),
        "lessons": Listed("nouns", "Lessons: list, match, reinforce, retire; `mnemolog lesson` records one."),
        "lesson": Listed("nouns", "Record a lesson; recording it again raises its confidence."),
        "slots": Listed("nouns", "Short pinned notes in every agent's context: list, get, set, append, delete."),
        "actions": Listed("nouns", "Work items for agents: list, frontier, add, done, claim, next, renew, release."),
        "confirm": Listed("show", "Mark memories or lessons as correct, which ranks them higher."),
        "feedback": Listed("show", "Judge memories or lessons that an agent was given."),
        "forget": Listed("show", "Permanently delete documents, a session, or everything of a user or project."),
        "inbox": Listed("nouns", "Suggested rules, lessons and memories: list, approve, reject."),
        "quarantine": Listed("nouns", "Documents that only admins can see: list, add, release."),
        "export": Listed("transfer", "Export the whole log, one event per line, for `mnemolog import`."),
        "import": Listed("transfer", "Import an export, or the data of another memory system."),
        "skills": Listed("skills", "Approved procedures as Agent Skills: export."),
        "mirror": Listed(
            "mirror",
            "Mirror a project's memories and lessons as Markdown files, and send back what was edited in them.",
        ),
    },
    "Operation": {
        "health": Listed("server", "Show whether reads and writes work, what is degraded, and key metrics."),
        "logs": Listed("config", "Print the logs of the processes that `mnemolog up` runs on this machine."),
        "config": Listed("config", "Show every setting of this environment, and where it comes from."),
        "lag": Listed("server", "Show how far behind the projections are, by partition."),
        "tail": Listed(
            "server", "Print the log, one event per line, in order of time, and then new events as they arrive."
        ),
        "keys": Listed("keys", "API keys: who can use the server, and for what."),
        "backup": Listed(
            "backup", "Back up the log now if it changed since the newest backup; works while it is in use."
        ),
        "backups": Listed("backup", "List the backups, oldest first."),
        "restore": Listed("backup", "Restore a backup into an empty log that no worker or API uses."),
        "archive": Listed("archive", "Show, verify or fill the log's archive."),
        "api": Listed("processes", "Serve the HTTP API and MCP (needs REDIS_URL)."),
        "worker": Listed("processes", "Project the log into documents, and run the background jobs (needs REDIS_URL)."),
        "mcp": Listed("bridge", "Serve MCP on stdin and stdout, for clients that start a process."),
        "uninstall": Listed(
            "install", "Remove exactly what `mnemolog install` added to a coding agent's files, or the service."
        ),
    },
    "Repair": {
        "dead-letters": Listed("repair", "Events that could not be applied: list, show, redrive, discard."),
        "reconcile": Listed("repair", "Compare log, documents and index, and repair what is safe."),
        "rebuild": Listed("repair", "Rebuild documents and index from the log in the background, compare, and switch."),
        "log-file": Listed("log_file", "Show, check or repair the embedded server's append-only file."),
    },
    "For scripts of other systems": {"memory": Listed("memory", "The commands of agentd's `agent memory`.")},
}
"""The commands in the order of the help, by panel."""

COMMANDS = {name: listed for panel in PANELS.values() for name, listed in panel.items()}

COMPLETING = "_MNEMOLOG_COMPLETE"
"""Set by a shell that asks for completions."""


def application(command: str = "") -> typer.Typer:
    """The command line with one command's module, or with all of them if there is no such command.

    Importing all modules takes longer than most commands run.
    """
    app = _empty()
    named = COMMANDS.get(command)
    for module in dict.fromkeys(listed.module for listed in ([named] if named else COMMANDS.values())):
        import_module(f"api.cli.{module}").register(app)
    return app


def overview() -> typer.Typer:
    """The command line as its help lists it, without importing any command: that takes two seconds for all of them."""
    app = _empty(add_completion=False, epilog="`mnemolog COMMAND --help` shows options and an example.")
    for panel, commands in PANELS.items():
        for name, listed in commands.items():
            app.command(name, help=listed.summary, rich_help_panel=panel)(lambda: None)
    return app


def _empty(**options: Any) -> typer.Typer:
    app = typer.Typer(name="mnemolog", no_args_is_help=True, **options)
    app.callback(help="Shared memory for fleets of AI agents.")(_whole)
    return app


def _print_version(given: bool) -> None:
    if given:
        typer.echo(f"mnemolog {release() or '(a source tree)'}")
        raise typer.Exit


def _whole(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the release, and exit.")
    ] = False,
) -> None:
    """All commands."""


def main() -> None:
    """Entry point."""
    first = next(iter(sys.argv[1:]), "")
    is_command = first in COMMANDS or COMPLETING in os.environ or first.endswith("-completion")
    explained(lambda: _run(application(first) if is_command else overview()))


def _run(app: typer.Typer) -> NoReturn:
    """Run the command line and exit. A usage error is one line, not typer's panel of five."""
    try:
        code: object = app(prog_name="mnemolog", standalone_mode=False)
    except typer.Abort:
        typer.echo("canceled", err=True)
        code = 1
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer has a click of its own, or uses the installed one
            raise
        code = 2
        if type(error).__name__ != "NoArgsIsHelpError":  # which has printed the help
            message = usage_error(error)
            as_json = json.dumps({"error": {"code": "usage", "message": message}})
            typer.echo(as_json) if "--json" in sys.argv else _print_error(message)
    sys.exit(code if isinstance(code, int) else 0)


def _print_error(message: str) -> None:
    from ingest.names import visible

    typer.echo(f"{typer.style('error:', fg='red')} {visible(message)}", err=True)


def explained(run: Callable[[], None]) -> None:
    """Run a command; expected errors are printed as one line, not a traceback."""
    try:
        run()
    except MnemologError as error:
        message = str(error)
    except OSError as error:
        message = f"{error.filename}: " * bool(error.filename) + (error.strerror or str(error))
    else:
        return
    _print_error(message)
    sys.exit(1)


if __name__ == "__main__":
    main()
