"""agentd-memory: a REST API on a port of its own."""

from operator import attrgetter

from api.dialects.dialect import Dialect, Listener

AGENTD = Dialect(
    "agentd",
    state="api.dialects.agentd.state:AgentdState",
    listeners=(
        Listener(
            "MNEMOLOG_AGENTD_PORT", "agentd-memory", attrgetter("agentd_ports"), "api.dialects.agentd.app:create_app"
        ),
    ),
    importer="api.importing.systems:agentd_source",
)
