"""The search engine room: the index on RediSearch instead of in each process (`MNEMOLOG_INDEX`).

Hands out the service that asks the engine (API processes), and what keeps and checks its indexes (workers). Without it
only the embedded index is left.
"""

from projections.search_engine.filling import Servers
from projections.search_engine.keeping import EngineNames, SearchEngineIndexes
from projections.search_engine.service import EngineService

__all__ = ["EngineNames", "EngineService", "SearchEngineIndexes", "Servers"]
