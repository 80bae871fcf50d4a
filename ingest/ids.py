"""Identifiers: event ids from callers or ULIDs, document ids derived from them so that a repeat changes nothing."""

import re
from functools import lru_cache
from hashlib import blake2b
from typing import NewType

from ulid import ULID

from ingest.kinds import RELATION

EventId = NewType("EventId", str)
DocumentId = NewType("DocumentId", str)

SHORT_DIGITS = 7
"""Of a shortened id, as in git. Of 100,000 documents, one in 2,700 shares its shortened id with another."""
_SHORT_ID = re.compile(rf"[a-z]+_[0-9a-f]{{{SHORT_DIGITS},19}}")
_WHOLE_ID = re.compile(r"[a-z]+_[0-9a-f]{20}")


def new_event_id() -> EventId:
    """A fresh ULID (26 characters, sorts by time to the millisecond)."""
    return EventId(str(ULID()))


@lru_cache(maxsize=8_192)
def document_id(prefix: str, routing_key: str, event_id: str) -> DocumentId:
    """The id of the document that an event creates: `<prefix>_<20 hex>`. A function of the event id and of where the
    event is routed (tenant, project, for observations also the session), so the same event sent again, however late,
    names the same document, and equal event ids of two tenants do not meet."""
    digest = blake2b(f"{routing_key}\0{event_id}".encode(), digest_size=10).hexdigest()
    return DocumentId(f"{prefix}_{digest}")


def shortened_id(name: str) -> str:
    """The beginning of a document's id, which names the document to a reader in most cases; another name as it is."""
    return name[: SHORT_DIGITS - 20] if _WHOLE_ID.fullmatch(name) else name


def is_shortened(name: str) -> bool:
    """Return true for a shortened id: a prefix and seven digits or more of the 20."""
    return _SHORT_ID.fullmatch(name) is not None


def dedup_id(routing_key: str, event_id: str) -> str:
    """What a repeat is recognised by in the log: 32 hex digits of where the event is routed and its event id. Callers
    of two tenants, projects or sessions that share a partition may use the same event ids."""
    return blake2b(f"{routing_key}\0{event_id}".encode(), digest_size=16).hexdigest()


def part_id(kind: str, event_id: str, name: str) -> EventId:
    """The id of the event about one of the documents that a request with this event id names."""
    return EventId(f"{kind}:{blake2b(f'{event_id}:{name}'.encode(), digest_size=16).hexdigest()}")


def imported_dedup_id(routing_key: str, event_id: str, payload: bytes) -> str:
    """What a repeat of an imported event is recognised by: the whole event. Behind its dedup window a log may have
    taken an event id twice, as another event or as the stub of an erased repeat; an import within one window keeps
    both."""
    return dedup_id(routing_key, f"{event_id}\0{blake2b(payload, digest_size=16).hexdigest()}")


def imported_event_id(system: str, key: str) -> EventId:
    """The event id for a row of another system, independent of the file or server it is read from."""
    digest = blake2b(f"{system}\0{key}".encode(errors="replace"), digest_size=16).hexdigest()
    return EventId(f"import-{digest}")


def content_id(prefix: str, routing_key: str, fingerprint: str) -> DocumentId:
    """The id of a document whose identity is its content (a lesson): `<prefix>_<20 hex>` within tenant and project."""
    return document_id(prefix, routing_key, fingerprint)


def relation_id(routing_key: str, source: str, relation: str, target: str) -> DocumentId:
    """The id of a relation: relating the same two again, the same way, is the same relation."""
    return content_id(RELATION, routing_key, "\0".join((source, relation, target)))
