"""What our hooks leave in the spool folder, as commands."""

from typing import Any, cast

import msgspec

from api.agents.payloads import HOSTS
from api.agents.recording import command_of
from ingest.commands.decide import WriteCommand
from ingest.commands.parse import parse_json, parse_object
from ingest.errors import CommandRejected

_ANY_WRITE = cast(type[WriteCommand], WriteCommand)
"""msgspec takes a union where type checkers want a class."""


class _Facts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a hook knows beside the payload."""

    project: str
    occurred_at: str
    event_id: str
    agent_id: str = ""
    host: str = "claude-code"


class _Unread(msgspec.Struct, frozen=True):
    """A payload that was too big to be read within a hook's time."""

    hook: _Facts
    payload: dict[str, Any]


def parse(content: bytes, name: str) -> list[WriteCommand]:
    """The command of a spool file, or of the payload in it; none when there is nothing to record.

    Raises MalformedRequest or CommandRejected.
    """
    if not content.startswith(b'{"hook":'):
        return [parse_json(content, _ANY_WRITE)]
    unread = parse_json(content, _Unread)
    if (host := HOSTS.get(unread.hook.host)) is None:
        raise CommandRejected(f"there is no hook for {unread.hook.host!r}", field="hook.host")
    command = command_of(host.event(unread.payload), **msgspec.structs.asdict(unread.hook))
    return [] if command is None else [parse_object(command, _ANY_WRITE)]
