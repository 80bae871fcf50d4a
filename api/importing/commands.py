"""Native commands, one a line, as POST /v1/events takes them. Pure."""

from datetime import datetime

import msgspec

from api.importing.mapping import Mapped, Row, Step
from ingest.commands.parse import parse_batch
from ingest.errors import CommandRejected

SYSTEM = "jsonl"
COMMAND = "command"


def mapped(row: Row, at: datetime) -> Mapped:
    """The command of a line, which happened when it says, else `at`; raises CommandRejected when it is none.

    Without an `event_id` it is known by its place and its text: the same line in the same place is the same event.
    """
    if not row.value:
        raise CommandRejected("the line is no JSON object")
    (said,) = parse_batch(msgspec.json.encode([row.value]), "application/json")
    if isinstance(said, CommandRejected):
        raise said
    occurred_at = said.occurred_at
    if occurred_at is not None and occurred_at.tzinfo is None:
        raise CommandRejected("a time needs a zone: write 2026-01-31T12:00:00Z", "occurred_at")
    line = msgspec.json.encode(row.value, order="deterministic").decode()
    return Mapped([Step(said, f"{COMMAND}\0{row.name}\0{line}", occurred_at or at)])
