"""agentd-memory: a REST API on a port of its own.

Hands the registry a description of what to build. Without it agentd's command line and page have no server, and its
memories cannot be imported.
"""

from operator import attrgetter

from api.dialects.dialect import Dialect, Listener

AGENTD = Dialect(
    "agentd",
    state="api.dialects.agentd.app:AgentdState",
    listeners=(
        Listener(
            "MNEMOLOG_AGENTD_PORT", "agentd-memory", attrgetter("agentd_ports"), "api.dialects.agentd.app:create_app"
        ),
    ),
    importer="api.dialects.agentd.importer:open_source",
)
