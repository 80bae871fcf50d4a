"""The Valkey that `mnemolog up` starts when no REDIS_URL is set: one server, persistent, on a unix socket.

Hands out the server, the record of acknowledged positions that its start compares the log with, and the checks and
repairs of `mnemolog admin log-file`. Without it, REDIS_URL is required, and there is no `mnemolog admin log-file`.
"""

from ingest.embedded.log_file import (
    SET_ASIDE,
    WAY_OUT,
    Acknowledged,
    Damage,
    LogCheck,
    cut_off,
    find_fault,
    forget_damage,
    is_newest,
    load_damage,
)
from ingest.embedded.valkey import EmbeddedValkey

__all__ = [
    "SET_ASIDE",
    "WAY_OUT",
    "Acknowledged",
    "Damage",
    "EmbeddedValkey",
    "LogCheck",
    "cut_off",
    "find_fault",
    "forget_damage",
    "is_newest",
    "load_damage",
]
