"""The command line: `mnemolog`. Each command is in a module, which is imported when it is that command's turn."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import NoReturn

import typer
from rich.console import Console
from rich.text import Text

from ingest.errors import MnemologError

MODULES: Mapping[str, tuple[str, ...]] = {
    "commands": ("observe", "remember", "lesson", "recall", "tail", "lag"),
    "processes": ("up", "api", "worker", "mcp"),
    "demo": ("demo",),
    "health": ("health",),
    "rebuild": ("rebuild",),
    "transfer": ("export", "import"),
    "install": ("install", "uninstall"),
    "backup": ("backup", "restore", "backups"),
    "archive": ("archive",),
    "log_file": ("log-file",),
    "repair": ("reconcile", "dead-letters"),
    "memory": ("memory",),
    "keys": ("keys",),
}
"""The commands of each module of this package, in the order of the help."""


def application(command: str = "") -> typer.Typer:
    """The command line with the module of one command only, or with all of them where there is no such command.

    Most commands need little of what the others import, which takes longer than what they do.
    """
    app = typer.Typer(name="mnemolog", no_args_is_help=True)
    app.callback(help="Shared memory for fleets of AI agents.")(lambda: None)
    for module in [name for name, commands in MODULES.items() if command in commands] or MODULES:
        import_module(f"api.cli.{module}").register(app)
    return app


def main() -> None:
    """Entry point."""
    explained(lambda: application(*sys.argv[1:2])())


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
