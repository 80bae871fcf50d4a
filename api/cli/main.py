"""The command line: `mnemolog`. A command's module is imported only when that command runs."""

import json
import os
import sys
from importlib import import_module
from typing import Annotated, Any, NamedTuple, NoReturn

import typer

from api.cli.errors import explained, print_error
from api.cli.usage import usage_error
from ingest.platform.files import toml_beside
from ingest.platform.processes import release


class Listed(NamedTuple):
    """A command as the help lists it: its module in this package, and the start of its own help."""

    module: str
    summary: str


PANELS = {
    panel: {name: Listed(*row) for name, row in commands.items()}
    for panel, commands in toml_beside(__file__, "commands.toml").items()
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
            typer.echo(as_json) if "--json" in sys.argv else print_error(message)
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
