"""All imitated systems, in the order in which their MCP tools are listed, and the ports that their APIs listen on.

Nothing here loads a web framework, because the process of `mnemolog up` does not need one.
"""

from api.dialects.agent_memory.room import AGENT_MEMORY
from api.dialects.agentd.room import AGENTD
from api.dialects.agentmemory.room import AGENTMEMORY
from api.dialects.dialect import Dialect, Listener
from api.dialects.memex.room import MEMEX
from ingest.errors import InvalidSetting
from ingest.platform.settings import DROP_INS, Settings

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (AGENTMEMORY, AGENTD, MEMEX, AGENT_MEMORY)}
IMPORTERS: dict[str, str] = {
    **{name: DIALECTS[name].importer for name in ("agentmemory", *DROP_INS) if DIALECTS[name].importer},
    **{name: opener for dialect in DIALECTS.values() for name, opener in dialect.other_importers.items()},
}
"""The function that opens the source of a system, by the system's name."""


def listeners_of(settings: Settings) -> list[Listener]:
    """The listeners that `drop_in` asks for, in its order."""
    return [listener for name in settings.drop_in for listener in DIALECTS[name].listeners]


PORT_CLIENTS = {"MNEMOLOG_PORT": "native and agentmemory"} | {
    listener.variable: listener.clients for dialect in DIALECTS.values() for listener in dialect.listeners
}
"""The APIs on the port that each variable names."""


def ports_of(settings: Settings) -> dict[int, str]:
    """Every port in the settings, with the variable that names it; raises InvalidSetting if two variables name the same
    port."""
    settings_of_ports = [("MNEMOLOG_PORT", (settings.port,))]
    settings_of_ports += [(listener.variable, listener.ports(settings)) for listener in listeners_of(settings)]
    variables: dict[int, str] = {}
    for variable, ports in settings_of_ports:
        for port in ports:
            if variables.setdefault(port, variable) != variable:
                raise InvalidSetting(f"{variables[port]} and {variable} both name port {port}")
    return variables


def ports_of_one(settings: Settings) -> frozenset[int]:
    """The ports whose clients have in-process sessions: with several processes, only the first listens on them."""
    return frozenset(
        port for listener in listeners_of(settings) if listener.has_sessions for port in listener.ports(settings)
    )
