"""The command line imports what a command needs, and no more."""

import subprocess
import sys
from typing import Any, cast

import pytest
import typer

from api.cli.main import MODULES, application

COMMANDS = [(module, commands) for module, commands in MODULES.items()]
CLIENT_COMMANDS = ("observe", "recall", "lag", "health", "demo", "rebuild", "memory", "install", "mcp")
HEAVY = ("redis", "aredis_om", "numpy", "mcp", "starlette", "cryptography")


def commands_of(app: typer.Typer) -> list[str]:
    """Names of the commands."""
    return list(cast(Any, typer.main.get_command(app)).commands)


@pytest.mark.parametrize(("module", "commands"), COMMANDS)
def test_each_command_is_there_with_those_of_its_module_alone(module: str, commands: tuple[str, ...]):
    for command in commands:
        assert commands_of(application(command)) == list(commands)


@pytest.mark.parametrize("asked", ["", "--help", "nonsense"])
def test_without_a_command_all_commands_are_listed(asked: str):
    assert sorted(commands_of(application(asked))) == sorted(name for names in MODULES.values() for name in names)


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
