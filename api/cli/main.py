"""The command line: `mnemolog`. Each command is in a module, which is imported when it is that command's turn."""

import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import NoReturn

import typer
from rich.console import Console
from rich.text import Text

from ingest.errors import MnemologError

MODULES: Mapping[str, Mapping[str, str]] = {
    "commands": {
        "observe": "Record what an agent saw or did in a session.",
        "remember": "Keep something for a long time; what says nearly the same replaces the older memory.",
        "lesson": "State something learned; saying it again makes it stronger.",
        "recall": "Find the right memories for a query.",
        "tail": "Print the log, one event a line, in the order of time, and then as it grows.",
        "lag": "Show how far behind the projections are, partition by partition.",
    },
    "processes": {
        "up": "Run everything one machine needs, until Ctrl-C.",
        "api": "Serve the HTTP API and MCP (needs REDIS_URL).",
        "worker": "Project the log into documents, and run the background jobs (needs REDIS_URL).",
        "mcp": "Speak MCP on stdin and stdout, for clients that start a process.",
    },
    "demo": {
        "demo": "Play a fleet of ten agents against a running server and show what it recalls.",
    },
    "health": {
        "health": "Say whether reads and writes work, what does not work well, and the vital signs.",
    },
    "rebuild": {
        "rebuild": "Rebuild documents and index from the log, beside those that are read, compare them, and switch.",
    },
    "transfer": {
        "export": "Write everything the log has, one event a line, for `mnemolog import`.",
        "import": "Append what an export has, or take over what another memory system knows.",
    },
    "install": {
        "install": "Put our MCP server, rules, and hooks where it has them, into a coding agent's files.",
        "uninstall": "Take out of a coding agent's files what `mnemolog install` put there, and nothing else.",
    },
    "backup": {
        "backup": "Back the log up now, if it has changed since the newest backup; also while it is in use.",
        "restore": "Put a backup into an empty log that no worker or API uses.",
        "backups": "List the backups, oldest first.",
    },
    "archive": {
        "archive": "Show, verify or fill the log's archive.",
    },
    "log_file": {
        "log-file": "Show, check or repair the embedded server's file.",
    },
    "repair": {
        "reconcile": "Compare log, documents and index, and repair what is safe.",
        "dead-letters": "Events that could not be applied: list, show, redrive, discard.",
    },
    "memory": {
        "memory": "The commands of agentd's `agent memory`.",
    },
    "keys": {
        "keys": "API keys: who may use the server, and for what.",
    },
}
"""The commands of each module of this package, in the order of the help, each with how its own begins."""

COMPLETING = "_MNEMOLOG_COMPLETE"
"""Set by a shell that asks how a command line may go on."""


def application(command: str = "") -> typer.Typer:
    """The command line with the module of one command only, or with all of them where there is no such command.

    Most commands need little of what the others import, which takes longer than what they do.
    """
    app = _empty()
    for module in [name for name, commands in MODULES.items() if command in commands] or MODULES:
        import_module(f"api.cli.{module}").register(app)
    return app


def overview() -> typer.Typer:
    """The command line as its help lists it, without importing any command: that takes two seconds for all of them."""
    app = _empty()
    for commands in MODULES.values():
        for name, summary in commands.items():
            app.command(name, help=summary)(lambda: None)
    return app


def _empty() -> typer.Typer:
    app = typer.Typer(name="mnemolog", no_args_is_help=True)
    app.callback(help="Shared memory for fleets of AI agents.")(lambda: None)
    return app


def main() -> None:
    """Entry point."""
    only_help = sys.argv[1:] in ([], ["--help"]) and COMPLETING not in os.environ
    explained(lambda: (overview() if only_help else application(*sys.argv[1:2]))())


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
