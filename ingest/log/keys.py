"""Every native Redis key, with its lifetime. A key name is written here and nowhere else.

What must change atomically shares a partition's hash tag, so the code also runs on a Redis Cluster. Documents,
listings, checkpoint, change feed and embedding queue belong to a *generation*: a rebuild fills the next one beside the
live one and switches by setting one key. (arq keeps its own keys, `mnemolog:arq` and `arq:…`; redis-om rows take theirs
from here.)

| key | type | lifetime |
|---|---|---|
| mnemolog:manifest | hash | for ever: partition count, creation time |
| {pNN}:log | stream | for ever; entries leave only by forgetting (later: behind the archive) |
| {pNN}:erased | sorted set | for ever: stubs of erased entries, in the order of their positions |
| {pNN}:dedup, {pNN}:dedup:previous | hash | TTL: one dedup window, two for the current one |
| {pNN}:lease | string | TTL: lease time, renewed |
| {pNN}:fence | counter | for ever: fencing token of the newest lease |
| {pNN}:generation | string | for ever: the generation that readers use |
| {pNN}:rebuild | string | TTL: who rebuilds the partition, renewed |
| {pNN}:attempts | hash | fields removed when the event is applied or parked |
| {pNN}:dead | hash | until a rebuild can apply it |
| {pNN}:gN:doc:ID | string | as long as the generation and the document |
| row:{pNN}:gN:ID | hash (redis-om) | as long as the generation and the document |
| {pNN}:gN:list:... | sorted set | as long as the generation |
| {pNN}:gN:checkpoint | string | as long as the generation |
| {pNN}:gN:changes | stream | trimmed behind the newest complete snapshot |
| {pNN}:gN:trimmed | string | as long as the generation: up to where the feed was trimmed |
| {pNN}:gN:embed | sorted set | members removed when embedded |
| mnemolog:vec:SHA | string | TTL: embedding cache time |
| mnemolog:workers | sorted set | members removed when a worker stops or misses its heartbeats |
"""

from datetime import timedelta
from typing import NamedTuple

PREFIX = "mnemolog"
MANIFEST = f"{PREFIX}:manifest"
WORKERS = f"{PREFIX}:workers"
CONSUMER_GROUP = "documents"
CONSUMER = "runner"

DEDUP_WINDOW = timedelta(hours=1)
DEDUP_IDS = 250_000
"""Ids remembered per partition. About 100 bytes each, so a partition's window costs at most 25 MB."""
REBUILD_TTL = timedelta(minutes=5)
LEASE_TTL = timedelta(seconds=5)
"""A crashed worker's partitions are free after this long; a healthy one renews three times within it."""
EMBEDDING_CACHE_TTL = timedelta(days=30)


def embedding(sha256: bytes) -> str:
    """Cached vector of one text under one model."""
    return f"{PREFIX}:vec:{sha256.hex()}"


def row_key(pk: str) -> str:
    """The hash of a redis-om row."""
    return f"{PREFIX}:row:{pk}"


class GenerationKeys(NamedTuple):
    """Keys of one generation of one partition's documents projection."""

    partition: int
    generation: int

    @property
    def tag(self) -> str:
        return f"{PREFIX}:{self._place}"

    @property
    def _place(self) -> str:
        return f"{{p{self.partition:02d}}}:g{self.generation}"

    def doc(self, document_id: str) -> str:
        return f"{self.tag}:doc:{document_id}"

    def row_pk(self, document_id: str) -> str:
        """The primary key under which redis-om saves a row."""
        return f"{self._place}:{document_id}"

    def row(self, document_id: str) -> str:
        return row_key(self.row_pk(document_id))

    def listing(self, name: str) -> str:
        return f"{self.tag}:list:{name}"

    @property
    def checkpoint(self) -> str:
        return f"{self.tag}:checkpoint"

    @property
    def trimmed(self) -> str:
        return f"{self.tag}:trimmed"

    @property
    def changes(self) -> str:
        return f"{self.tag}:changes"

    @property
    def embed_queue(self) -> str:
        return f"{self.tag}:embed"

    @property
    def everything(self) -> tuple[str, str]:
        """SCAN patterns that match every key of the generation; the braces of a hash tag are literal in a glob."""
        return f"{self.tag}:*", row_key(f"{self._place}:*")


class PartitionKeys(NamedTuple):
    """Keys of one partition; `{pNN}` is its hash tag."""

    partition: int

    @property
    def tag(self) -> str:
        return f"{PREFIX}:{{p{self.partition:02d}}}"

    @property
    def log(self) -> str:
        return f"{self.tag}:log"

    @property
    def erased(self) -> str:
        return f"{self.tag}:erased"

    @property
    def dedup(self) -> str:
        return f"{self.tag}:dedup"

    @property
    def dedup_previous(self) -> str:
        return f"{self.tag}:dedup:previous"

    @property
    def lease(self) -> str:
        return f"{self.tag}:lease"

    @property
    def fence(self) -> str:
        return f"{self.tag}:fence"

    @property
    def generation(self) -> str:
        return f"{self.tag}:generation"

    @property
    def rebuild(self) -> str:
        return f"{self.tag}:rebuild"

    @property
    def attempts(self) -> str:
        return f"{self.tag}:attempts"

    @property
    def dead(self) -> str:
        return f"{self.tag}:dead"

    def of_generation(self, generation: int) -> GenerationKeys:
        return GenerationKeys(self.partition, generation)
