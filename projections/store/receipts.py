"""Receipts: what became of a request to forget a user, a project or a session; also the list of those still to do."""

from datetime import datetime

from msgspec import Struct, json

from ingest.kinds import SubjectKind
from ingest.log.keys import RECEIPTS
from ingest.platform.connections import Client, past_memory_limit


class Probe(Struct, frozen=True, kw_only=True):
    """A search for what was forgotten, made afterward: `found` must be 0."""

    documents: int
    queries: int
    found: int


class Removed(Struct, frozen=True, kw_only=True):
    """What went from each store. `documents` counts by kind; `replicas` are index replicas that have reloaded.

    `append_only_file` says whether the server was asked to rewrite it, which is where it drops what was deleted.
    `archive_segments` were rewritten: 0 also when an earlier run did that. `read_ledger` has the entries of a project.
    """

    log_entries: int = 0
    documents: dict[str, int] = {}
    embedding_cache: int = 0
    change_feeds: int = 0
    snapshot: str = ""
    older_snapshots: int = 0
    replicas: int = 0
    replicas_waiting: int = 0
    append_only_file: str = ""
    archive_segments: int = 0
    read_ledger: int = 0


class Receipt(Struct, frozen=True, kw_only=True):
    """One request to forget. `subject` is a digest where it is a user; `name` is emptied when it is done."""

    id: str
    tenant: str
    kind: SubjectKind
    subject: str
    name: str = ""
    nameless: bool = False
    """Whether it is the nameless project: its name is empty from the beginning."""
    project: str = ""
    reason: str = ""
    agent_id: str = ""
    status: str = "pending"
    requested_at: datetime
    finished_at: datetime | None = None
    attempts: int = 0
    until: str = ""
    """Position of the log at which it began: what was recorded later stays."""
    error: str = ""
    removed: Removed = Removed()
    probe: Probe | None = None


async def save_receipt(redis: Client, receipt: Receipt) -> None:
    """Write a receipt, in the place of the one it had; also where there is no memory left for anything else."""
    async with past_memory_limit(redis) as pipe:
        pipe.hset(RECEIPTS, receipt.id, json.encode(receipt))
        await pipe.execute()


async def load_receipt(redis: Client, name: str) -> Receipt | None:
    """A receipt by id."""
    raw = await redis.hget(RECEIPTS, name)
    return json.decode(raw, type=Receipt) if raw else None


async def all_receipts(redis: Client) -> list[Receipt]:
    """Every receipt, oldest first."""
    stored: dict[bytes, bytes] = await redis.hgetall(RECEIPTS)
    receipts = [json.decode(raw, type=Receipt) for raw in stored.values()]
    return sorted(receipts, key=lambda receipt: (receipt.requested_at, receipt.id))
