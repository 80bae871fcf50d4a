"""The ports of a server, and which API listens on each.

Nothing here loads a web framework, because the process of `mnemolog up` does not need one.
"""

from api.dialects.registry import DIALECTS, listeners_of
from ingest.errors import InvalidSetting
from ingest.platform.settings import Settings

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
