"""Coding agents: hooks that record sessions, and `mnemolog install`, which sets up hooks, MCP server and rules.

Hands out `parse`, which reads what hooks spooled while the server was away. Without this room, coding agents record
nothing by themselves.
"""

from typing import Any, cast

import msgspec

from api.agents.payloads import HOSTS
from api.agents.recording import command_of
from ingest.commands.decide import WriteCommand
from ingest.commands.parse import parse_json, parse_object
from ingest.errors import CommandRejected

_ANY_WRITE = cast(type[WriteCommand], WriteCommand)
"""msgspec accepts a union, but type checkers want a class."""


class _Facts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The hook's own fields."""

    project: str
    occurred_at: str
    event_id: str
    agent_id: str = ""
    host: str = "claude-code"


class _Unread(msgspec.Struct, frozen=True):
    """A payload that was too big to parse in the hook."""

    hook: _Facts
    payload: dict[str, Any]


def parse(content: bytes, name: str) -> list[WriteCommand]:
    """The command in a spool file, or from its payload; empty if there is nothing to record.

    Raises MalformedRequest or CommandRejected.
    """
    if not content.startswith(b'{"hook":'):
        return [parse_json(content, _ANY_WRITE)]
    unread = parse_json(content, _Unread)
    if (host := HOSTS.get(unread.hook.host)) is None:
        raise CommandRejected(f"there is no hook for {unread.hook.host!r}", field="hook.host")
    command = command_of(host.event(unread.payload), **msgspec.structs.asdict(unread.hook))
    return [] if command is None else [parse_object(command, _ANY_WRITE)]
