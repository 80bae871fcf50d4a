"""The Valkey that `mnemolog up` starts when no REDIS_URL is set: one server, persistent, on a unix socket.

Hands out the server, the record of acknowledged positions that its start compares the log with, and the checks and
repairs of `mnemolog log-file`. Without it, REDIS_URL is required, and there is no `mnemolog log-file`.
"""

from ingest.embedded.log_file import (
    WAY_OUT,
    Acknowledged,
    Incident,
    LogCheck,
    cut_off,
    find_fault,
    is_newest,
    load_incidents,
    record_incident,
    take_note,
)
from ingest.embedded.valkey import EmbeddedValkey

__all__ = [
    "WAY_OUT",
    "Acknowledged",
    "EmbeddedValkey",
    "Incident",
    "LogCheck",
    "cut_off",
    "find_fault",
    "is_newest",
    "load_incidents",
    "record_incident",
    "take_note",
]
