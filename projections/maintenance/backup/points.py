"""Where in a backup a restore stops: at a token that a write answered, or at a time. Pure.

A partition that a token does not name stops at the time of the newest position that it does name. What was forgotten
behind the point stays forgotten: tombstones are restored wherever they stand, and receipts are, too.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from ingest.errors import CommandRejected
from ingest.events.envelope import as_json_object
from ingest.events.subject import SubjectForgotten
from ingest.log.event_log import Stored
from ingest.log.position import START, Position, Token
from ingest.platform.clock import to_ms
from projections.maintenance.backup.manifest import Manifest, RestoreRefused

_LAST_SEQ = 10**9
"""Behind every event of a millisecond."""


class Point(NamedTuple):
    """A place in the history of a log: the last position of each partition that belongs to it, and how it was named."""

    limits: Mapping[int, Position]
    said: str

    def takes(self, partition: int, entry: Stored) -> bool:
        """Whether an entry is restored: it is not behind the point, or it is a tombstone."""
        if entry.position <= self.limits[partition]:
            return True
        return as_json_object(entry.payload, entry.position).get("type") == SubjectForgotten.TYPE


def point_of(text: str, manifest: Manifest) -> Point:
    """The point that a token, or a time (ISO 8601 with a zone), names in a backup.

    Raises CommandRejected for what is neither; RestoreRefused when the backup does not reach so far.
    """
    try:
        when = msgspec.convert(text, datetime, strict=False)
    except msgspec.ValidationError:
        return _at_token(text, manifest)
    if when.tzinfo is None:
        raise CommandRejected(f"{text!r} has no time zone; write 2026-01-31T12:00:00Z", "at")
    if when > manifest.created_at:
        raise RestoreRefused(
            f"backup {manifest.name} was made at {manifest.created_at:%Y-%m-%dT%H:%M:%SZ} and does not reach {text}"
        )
    return Point(dict.fromkeys(range(manifest.partitions), Position(to_ms(when), _LAST_SEQ)), text)


def _at_token(text: str, manifest: Manifest) -> Point:
    try:
        token = Token.parse(text).check(manifest.partitions)
    except CommandRejected as error:
        raise CommandRejected(f"{text[:80]!r} is neither a time nor a token of this log: {error}", "at") from None
    for partition, position in token.items():
        head = Position.parse(manifest.heads.get(partition, str(START)))
        if position > head:
            raise RestoreRefused(
                f"backup {manifest.name} has partition {partition} up to {head} and does not reach {position}"
            )
    newest = Position(max(position.ms for position in token.values()), _LAST_SEQ)
    return Point({partition: token.get(partition, newest) for partition in range(manifest.partitions)}, text)
