"""Client of mnemolog, shared memory for fleets of AI agents: `Mnemolog` blocks, `AsyncMnemolog` awaits."""

from mnemolog_client import answers
from mnemolog_client.client import AsyncMnemolog, Mnemolog
from mnemolog_client.emitter import AsyncEmitter, Emitter
from mnemolog_client.errors import (
    AlreadyClaimed,
    Conflict,
    EmitterClosed,
    EmitterError,
    EmitterFull,
    Forbidden,
    InvalidRequest,
    MnemologError,
    NotDelivered,
    NotFound,
    Overloaded,
    ProjectionBehind,
    ServerFault,
    SpoolInUse,
    StaleToken,
    TooLarge,
    Unauthorized,
    Unavailable,
    Unreachable,
    VersionConflict,
)
from mnemolog_client.outbox import EmitterStats
from mnemolog_client.position import Position
from mnemolog_client.retry import Retry

__all__ = [
    "AlreadyClaimed",
    "AsyncEmitter",
    "AsyncMnemolog",
    "Conflict",
    "Emitter",
    "EmitterClosed",
    "EmitterError",
    "EmitterFull",
    "EmitterStats",
    "Forbidden",
    "InvalidRequest",
    "Mnemolog",
    "MnemologError",
    "NotDelivered",
    "NotFound",
    "Overloaded",
    "Position",
    "ProjectionBehind",
    "Retry",
    "ServerFault",
    "SpoolInUse",
    "StaleToken",
    "TooLarge",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "VersionConflict",
    "answers",
]
