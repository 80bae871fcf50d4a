"""The SQLite file of agentmemory's Python server as an export object: a table of JSON values by scope and key."""

from typing import Any

from api.importing.files import decoded
from api.importing.mapping import Record
from api.importing.source import Unusable
from api.importing.sql import Database

_LISTS = {
    "sessions": "mem:sessions",
    "memories": "mem:memories",
    "summaries": "mem:summaries",
    "lessons": "mem:lessons",
    "slots": "mem:slots",
    "relations": "mem:relations",
    "actions": "mem:actions",
    "actionEdges": "mem:action-edges",
}
_OBSERVATIONS = "mem:obs:"


def agentmemory_tables(database: Database) -> Record:
    """The export object of the file; raises Unusable when it is not agentmemory's."""
    if not {"scope", "key", "value"} <= database.columns("kv_store"):
        raise Unusable("this is no file of agentmemory: it has no table `kv_store`")
    export: Record = {name: _values(database, scope) for name, scope in _LISTS.items()}
    scopes = database.ask(
        "SELECT DISTINCT scope FROM kv_store WHERE scope >= ? AND scope < ? ORDER BY scope",
        [_OBSERVATIONS, f"{_OBSERVATIONS}\U0010ffff"],
    )
    export["observations"] = {
        one["scope"].removeprefix(_OBSERVATIONS): _values(database, one["scope"]) for one in scopes
    }
    return export


def _values(database: Database, scope: str) -> list[Any]:
    """The values of a scope, oldest first as far as ids tell; what is no JSON stays a text, and is refused later."""
    found = database.ask("SELECT value FROM kv_store WHERE scope = ? ORDER BY key", [scope])
    return [_value(one["value"]) for one in found]


def _value(stored: Any) -> Any:
    try:
        return decoded(stored if isinstance(stored, bytes) else str(stored).encode(), "a value")
    except Unusable:
        return stored
