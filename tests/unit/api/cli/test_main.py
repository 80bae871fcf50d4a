"""The command line imports what a command needs, and no more."""

import os
import subprocess
import sys
from typing import Any, cast

import pytest
import typer
from typer.testing import CliRunner

from api.cli.commands import ADMIN, COMMANDS, OPERATORS_COMMANDS, PEOPLE
from api.cli.main import COMPLETING, application, overview
from ingest.platform.processes import release

MODULES = sorted({listed.module for listed in COMMANDS.values()})
CLIENT_COMMANDS = ("observe", "recall", "lag", "health", "demo", "rebuild", "memory", "install", "mcp")
HEAVY = ("redis", "aredis_om", "numpy", "mcp", "starlette", "cryptography")


def commands_of(app: typer.Typer) -> list[str]:
    """Names of the commands."""
    return list(cast(Any, typer.main.get_command(app)).commands)


@pytest.mark.parametrize("module", MODULES)
def test_each_command_is_there_with_those_of_its_module_alone(module: str):
    commands = {name for name, listed in COMMANDS.items() if listed.module == module}
    for command in commands:
        assert set(commands_of(application(command))) == commands


@pytest.mark.parametrize("asked", ["", "--help", "nonsense"])
def test_without_a_command_all_commands_are_listed(asked: str):
    assert sorted(commands_of(application(asked))) == sorted([*COMMANDS, ADMIN])


def test_client_commands_import_no_server_packages():
    code = f"""
import sys
from api.cli.main import application
for command in {CLIENT_COMMANDS}:
    application(command)
    print(command, *({set(HEAVY)} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == list(CLIENT_COMMANDS)


def test_the_help_lists_what_each_command_says_of_itself():
    commands = cast(Any, typer.main.get_command(application())).commands
    for operators in (False, True):
        listed = cast(Any, typer.main.get_command(overview(operators))).commands
        shown = {name for name, command in listed.items() if not command.hidden}
        assert shown == (set(OPERATORS_COMMANDS) if operators else set(commands) - set(OPERATORS_COMMANDS))
        for name in shown - {ADMIN}:
            assert commands[name].help.startswith(listed[name].help.removesuffix(".")), name


def test_people_see_at_most_22_commands():
    assert sum(map(len, PEOPLE.values())) <= 22


def test_a_command_of_operators_is_also_called_without_admin_and_completed_below_it():
    commands = cast(Any, typer.main.get_command(application())).commands
    assert set(commands[ADMIN].commands) == set(OPERATORS_COMMANDS)
    assert all(commands[name].hidden for name in OPERATORS_COMMANDS)
    for words in (["admin", "config", "--help"], ["config", "--help"]):
        program = [sys.executable, "-m", "api.cli.main", *words]
        shown = subprocess.run(program, capture_output=True, text=True, check=True).stdout
        assert "Example: mnemolog admin config" in shown


def test_the_help_groups_the_commands_and_begins_with_what_a_newcomer_needs():
    told = CliRunner().invoke(overview(), ["--help"]).stdout
    places = [told.index(f"─ {panel} ─") for panel in PEOPLE]
    assert places == sorted(places)
    assert next(iter(PEOPLE)) == "Start here"
    assert {"up", "observe", "remember", "recall", "install"} <= set(PEOPLE["Start here"])


@pytest.mark.parametrize(
    ("argument", "told"),
    [("--version", f"mnemolog {release()}\n"), ("recal", "Did you mean 'recall'?")],
    ids=["--version", "mistyped"],
)
def test_what_is_no_command_imports_none(argument: str, told: str):
    shown = CliRunner().invoke(overview(), [argument])
    assert told in shown.output


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["--version"], ["recal"]], ids=["no command", "--help", "--version", "mistyped"]
)
def test_the_help_imports_no_command(arguments: list[str]):
    code = f"""
import sys
from api.cli.main import main
sys.argv[1:] = {arguments}
try:
    main()
finally:
    print([name for name in {[*MODULES, "client", "output"]} if f"api.cli.{{name}}" in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "recall" in done.stdout + done.stderr or "--version" in arguments
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_shell_that_completes_is_told_the_options_of_a_command():
    environment = {
        **os.environ,
        COMPLETING: "complete_bash",
        "COMP_WORDS": "mnemolog admin health --",
        "COMP_CWORD": "3",
    }
    code = "import sys; sys.argv = ['mnemolog']; from api.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert "--json" in done.stdout
