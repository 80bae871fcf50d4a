"""The commands of `mnemolog` in the order of the help: those of people, and those of operators below `admin`."""

from typing import NamedTuple

from ingest.platform.files import toml_beside

ADMIN = "admin"


class Listed(NamedTuple):
    """A command as the help lists it: its module in this package, and the start of its own help."""

    module: str
    summary: str


PEOPLE, OPERATORS = (
    {panel: {name: Listed(*row) for name, row in commands.items()} for panel, commands in panels.items()}
    for panels in toml_beside(__file__, "commands.toml").values()
)
"""By panel."""
OPERATORS_COMMANDS = {name: listed for panel in OPERATORS.values() for name, listed in panel.items()}
COMMANDS = {name: listed for panel in PEOPLE.values() for name, listed in panel.items() if name != ADMIN}
COMMANDS.update(OPERATORS_COMMANDS)


def spelled(command: str) -> str:
    """A command and its arguments as a person types them."""
    name = command.partition(" ")[0]
    return f"mnemolog {ADMIN} {command}" if name in OPERATORS_COMMANDS else f"mnemolog {command}"
