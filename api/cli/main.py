"""The command line: `mnemolog`. Each command is in a module, which is imported when it is that command's turn."""

import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Annotated, Any, NamedTuple, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from ingest.errors import MnemologError
from ingest.platform.processes import release


class Listed(NamedTuple):
    """A command as the help lists it: the module of this package that has it, and how its own help begins."""

    module: str
    summary: str


PANELS: Mapping[str, Mapping[str, Listed]] = {
    "Start here": {
        "up": Listed("processes", "Run everything one machine needs, until Ctrl-C."),
        "demo": Listed("demo", "Play a fleet of ten agents against a running server and show what it recalls."),
        "observe": Listed("commands", "Record what an agent saw or did in a session."),
        "remember": Listed(
            "commands", "Save a long-term memory. It replaces an older one of the same agent that states the same."
        ),
        "recall": Listed("commands", "Find the right memories for a query."),
        "context": Listed("context", "Print what an agent is told before it starts, as it gets it."),
        "install": Listed(
            "install", "Put our MCP server, rules, and hooks where it has them, into a coding agent's files."
        ),
        "open": Listed(
            "viewer", "Open the viewer, which shows what agents see and do, in a browser; prints its address."
        ),
        "doctor": Listed("doctor", "Check this machine and the server, and say what to do."),
    },
    "Documents": {
        "show": Listed("show", "Show a document, whole: what it says, who said it when, what it was made of."),
        "sessions": Listed("sessions", "Sessions of agents: list them, or show one with its summary and turns."),
        "memories": Listed("memories", "What is kept for a long time: list, history, revise."),
        "lessons": Listed("lessons", "What was learned: list, match, reinforce, retire; `mnemolog lesson` states one."),
        "lesson": Listed("commands", "State something learned; saying it again makes it stronger."),
        "slots": Listed("slots", "Small texts that are in every agent's context: list, get, set, append, delete."),
        "actions": Listed("actions", "Work items that agents share: list, frontier, add, done."),
        "confirm": Listed("show", "Say that memories and lessons proved right: they count for more from then on."),
        "forget": Listed("forget", "Forget documents, a session, or all of a user or project, for good, everywhere."),
        "export": Listed("transfer", "Write everything the log has, one event a line, for `mnemolog import`."),
        "import": Listed("transfer", "Append what an export has, or take over what another memory system knows."),
    },
    "Operation": {
        "health": Listed("health", "Say whether reads and writes work, what does not work well, and the vital signs."),
        "logs": Listed("logs", "Print the logs of the processes that `mnemolog up` runs on this machine."),
        "config": Listed("config", "Show every setting of this environment, and where it comes from."),
        "lag": Listed("commands", "Show how far behind the projections are, partition by partition."),
        "tail": Listed("commands", "Print the log, one event a line, in the order of time, and then as it grows."),
        "keys": Listed("keys", "API keys: who may use the server, and for what."),
        "backup": Listed(
            "backup", "Back the log up now, if it has changed since the newest backup; also while it is in use."
        ),
        "backups": Listed("backup", "List the backups, oldest first."),
        "restore": Listed("backup", "Put a backup into an empty log that no worker or API uses."),
        "grow": Listed("grow", "Copy a log into an empty one of more partitions, at the positions it had."),
        "archive": Listed("archive", "Show, verify or fill the log's archive."),
        "api": Listed("processes", "Serve the HTTP API and MCP (needs REDIS_URL)."),
        "worker": Listed("processes", "Project the log into documents, and run the background jobs (needs REDIS_URL)."),
        "mcp": Listed("processes", "Speak MCP on stdin and stdout, for clients that start a process."),
        "uninstall": Listed(
            "install", "Take out of a coding agent's files what `mnemolog install` put there, and nothing else."
        ),
    },
    "Repair": {
        "dead-letters": Listed("repair", "Events that could not be applied: list, show, redrive, discard."),
        "reconcile": Listed("repair", "Compare log, documents and index, and repair what is safe."),
        "rebuild": Listed(
            "rebuild",
            "Rebuild documents and index from the log, beside those that are read, compare them, and switch.",
        ),
        "log-file": Listed("log_file", "Show, check or repair the embedded server's file."),
    },
    "For scripts of other systems": {
        "memory": Listed("memory", "The commands of agentd's `agent memory`."),
    },
}
"""The commands in the order of the help, each in its panel."""

COMMANDS = {name: listed for panel in PANELS.values() for name, listed in panel.items()}

COMPLETING = "_MNEMOLOG_COMPLETE"
"""Set by a shell that asks how a command line may go on."""


def application(command: str = "") -> typer.Typer:
    """The command line with the module of one command only, or with all of them where there is no such command.

    Most commands need little of what the others import, which takes longer than what they do.
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


def _print_version(wanted: bool) -> None:
    if wanted:
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
    known = first in COMMANDS or COMPLETING in os.environ or first.endswith("-completion")
    explained(lambda: (application(first) if known else overview())())


def explained(run: Callable[[], None]) -> None:
    """Run a process: errors of ours are one line, not a traceback."""
    try:
        run()
    except MnemologError as error:
        _fail(str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}")


def _fail(message: str) -> NoReturn:
    line = Text("error: ", style="red").append(message, style="not red")
    Console(stderr=True).print(line, soft_wrap=True, highlight=False)
    sys.exit(1)


if __name__ == "__main__":
    main()
