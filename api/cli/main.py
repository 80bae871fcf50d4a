"""The command line: `mnemolog`. A command's module is imported only when that command runs."""

import json
import os
import sys
from collections.abc import Sequence
from copy import copy
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer

from api.cli.commands import ADMIN, COMMANDS, OPERATORS, OPERATORS_COMMANDS, PEOPLE, spelled
from api.cli.errors import explained, print_error
from api.cli.usage import usage_error
from ingest.platform.processes import release

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
    if not named:
        _group_operators_commands(app)
    return app


def _group_operators_commands(app: typer.Typer) -> None:
    """Put them below `admin`, too, for a shell that completes, and hide their names without it."""
    admin = typer.Typer(name=ADMIN)
    for command in app.registered_commands:
        if (command.name or getattr(command.callback, "__name__", "")) in OPERATORS_COMMANDS:
            admin.registered_commands.append(copy(command))
            command.hidden = True
    for group in app.registered_groups:
        if {group.name, getattr(group.typer_instance, "info", group).name} & OPERATORS_COMMANDS.keys():
            admin.registered_groups.append(copy(group))
            group.hidden = True
    app.add_typer(admin)


def overview(operators: bool = False) -> typer.Typer:
    """The command line as its help lists it, without importing any command: that takes two seconds for all of them."""
    about = "Commands for operators of a server." if operators else "Shared memory for fleets of AI agents."
    app = _empty(about, add_completion=False, epilog="With --help, a command shows its options and an example.")
    for panel, commands in (OPERATORS if operators else PEOPLE).items():
        for name, listed in commands.items():
            app.command(name, help=listed.summary, rich_help_panel=panel)(lambda: None)
    for name in () if operators else OPERATORS_COMMANDS:  # for suggestions
        app.command(name, hidden=True)(lambda: None)
    return app


def _empty(about: str = "", **options: Any) -> typer.Typer:
    app = typer.Typer(name="mnemolog", no_args_is_help=True, **options)
    app.callback(help=about)(_whole)
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
    arguments = sys.argv[1:]
    for_operators = arguments[:1] == [ADMIN] and COMPLETING not in os.environ
    if for_operators:
        del arguments[0]
    first = arguments[0] if arguments else ""
    is_command = first in (OPERATORS_COMMANDS if for_operators else COMMANDS)
    program = spelled(ADMIN) if for_operators else "mnemolog"
    if is_command or COMPLETING in os.environ or first.endswith("-completion"):
        explained(lambda: _run(application(first), program, arguments))
    else:
        explained(lambda: _run(overview(for_operators), program, arguments))


def _run(app: typer.Typer, program: str, arguments: Sequence[str]) -> NoReturn:
    """Run the command line and exit. A usage error is one line, not typer's panel of five."""
    try:
        code: object = app(arguments, prog_name=program, standalone_mode=False)
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
