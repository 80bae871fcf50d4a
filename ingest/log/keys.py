"""Every native Redis key, with its lifetime. Key names are defined only here.

Keys that must change atomically share a partition's hash tag, so the code also runs on a Redis Cluster. Documents,
listings, checkpoint, change feed and embedding queue belong to a *generation*: a rebuild fills the next one beside the
live one and switches by setting one key. (arq keeps its own keys,
`mnemolog:arq` and `arq:…`; redis-om rows take theirs from here.)

| key | type | lifetime |
|---|---|---|
| mnemolog:manifest | hash | forever: partition count, creation time, what a restore notes |
| {pNN}:log | stream | forever; an event (e), checksum (c) and trace (t); entries leave by forgetting or archiving |
| {pNN}:erased | sorted set | stubs of erased entries, in the order of their positions, until the archive has them |
| {pNN}:archived | hash | for ever: which manifest of the archive counts, its chain, up to where the log is in it |
| {pNN}:dedup, {pNN}:dedup:previous | hash | TTL: one dedup window, two for the current one; none during a restore |
| {pNN}:appended | counter | for ever: bytes of all events ever appended, for what projecting them will take |
| {pNN}:applied | string | for ever: the same as of the checkpoint |
| {pNN}:confirmed | string | TTL: a minute; what a write that waits for a disk or a replica waits behind |
| {pNN}:lease | string | TTL: lease time, renewed |
| {pNN}:fence | counter | for ever: fencing token of the newest lease |
| {pNN}:generation | string | for ever: the generation that readers use |
| {pNN}:generations | counter | for ever: the newest generation that was ever begun; no number is used twice |
| {pNN}:rebuild | string | TTL: who rebuilds the partition, renewed |
| {pNN}:attempts | hash | fields removed when the event is applied or parked |
| {pNN}:redrive | sorted set | members removed when the partition's runner has tried them |
| {pNN}:discarded | sorted set | for ever, but for those that are redriven: dead letters that must not be applied |
| {pNN}:letters | hash | for ever: how many dead letters were ever parked, applied after all, discarded |
| {pNN}:purge, {pNN}:purging | set | members removed when what was made of forgotten texts is deleted |
| {pNN}:imported | set | for ever: digests of imported tombstones and stubs, which no document tells of |
| {pNN}:enriched | string | for ever: up to where a model was asked to compress |
| {pNN}:gN:doc:ID | string | as long as the generation and the document |
| row:{pNN}:gN:ID | hash (redis-om) | as long as the generation and the document |
| {pNN}:gN:list:... | sorted set | as long as the generation |
| {pNN}:gN:checkpoint | string | as long as the generation |
| {pNN}:gN:folded-by | string | as long as the generation: the version of the folds that filled it |
| {pNN}:gN:changes | stream | trimmed behind the newest complete snapshot |
| {pNN}:gN:trimmed | string | as long as the generation: up to where the feed was trimmed |
| {pNN}:gN:dead | sorted set | as long as the generation; members removed when redriven or discarded |
| {pNN}:gN:embed | sorted set | members removed when embedded; so many at most |
| {pNN}:gN:embed-later | hash | until what did not fit into that queue is queued: how many, from when to when |
| {pNN}:gN:changes | stream | TTL: two minutes once the generation is deleted, for who still follows it |
| {pNN}:gN:trimmed | string | TTL: two minutes once the generation is deleted |
| mnemolog:vec:SHA | string | TTL: embedding cache time |
| mnemolog:llm:TENANT:DAY | counter | TTL: two days |
| mnemolog:receipts | hash | for ever: one receipt for every subject that was to be forgotten |
| mnemolog:reads:TENANT:PROJECT | stream | until the project is forgotten; trimmed to MNEMOLOG_READ_LEDGER entries |
| mnemolog:workers | sorted set | members removed when a worker stops or misses its heartbeats |
| mnemolog:replicas | sorted set | members removed when a replica stops or misses its heartbeats |
| {index}:snapshot | string | TTL: the worker that writes a snapshot, renewed |
| mnemolog:forgetting | string | TTL: who carries out receipts, renewed |
| mnemolog:purging | string | TTL: who purges, renewed |
| mnemolog:rebuilds | hash | for ever: the newest ten rebuilds, and which of them there is something to do for |
| mnemolog:rebuilding | string | TTL: who compares or switches what was rebuilt, renewed |
| mnemolog:backing-up | string | TTL: who makes a backup, renewed |
| mnemolog:archiving | string | TTL: who seals, trims or rewrites the archive, renewed |
| mnemolog:backup | string | for ever: what became of the newest backup, and when it was last looked after |
| mnemolog:reconciling | string | TTL: who reconciles, renewed |
| mnemolog:reconciled | string | for ever: what the newest reconciliation found, and where it goes on |
| mnemolog:purged | string | for ever: name of the newest snapshot that replicas must not be older than |
| {index}:embedder | string | for ever: the live embedder, and every model that may have left vectors in the cache |
| mnemolog:search | string | for ever: the indexes of a search engine, if this server is one |
| mnemolog:search:index:N:d:..., mnemolog:search:index:N:at:... | hash | as long as that index of a search engine |
| mnemolog:search:index:N:m:... | string | as long as that index and the document |
| mnemolog:search:index:N:e:... | sorted set | as long as that index and documents of the episode |
| {access}:keys | set | for ever: ids of API keys; revoked ones stay |
| {access}:version | counter | for ever: how often a key was made or changed |
| row:{access}:... | hash (redis-om) | for ever: what a key is for, and the hash of its secret |
| {access}:rate:... | hash | TTL: two minutes since the key was used |
| {webhooks}:subscriptions, {webhooks}:progress | hash | fields: as long as the webhook |
| {webhooks}:letters | hash | fields: as long as the webhook; of each, at most 1,000 dead letters |
| {webhooks}:lease:ID | string | TTL: the worker that delivers, renewed |
| {webhooks}:counts | hash | for ever: how many deliveries had each outcome |
| {numbers}:... | hash | for ever: the numbers that a dialect's clients know documents by; ids and names, no content |
"""

from datetime import timedelta
from typing import NamedTuple

PREFIX = "mnemolog"
MANIFEST = f"{PREFIX}:manifest"
RESTORING = "restoring"
"""Field of the manifest: the backup being restored, until the restore is complete."""
FORGOTTEN_BEFORE = "forgotten_before"
"""Field of the manifest: the deletion count of the log that this one was restored from."""
ARCHIVE_ID = "archive"
"""Field of the manifest: the name of this log's folder in the archive; a restored log gets a new folder."""
RESTORED = "restored"
"""Field of the manifest: the backup the log was restored from, up to which positions, when, and what was omitted."""
WORKERS = f"{PREFIX}:workers"
REPLICAS = f"{PREFIX}:replicas"
PURGED = f"{PREFIX}:purged"
SNAPSHOT_LEASE = f"{PREFIX}:{{index}}:snapshot"
EMBEDDER = f"{PREFIX}:{{index}}:embedder"
"""In the same slot: it changes only while the lease is held."""
FORGET_LEASE = f"{PREFIX}:forgetting"
PURGE_LEASE = f"{PREFIX}:purging"
ARCHIVE_LEASE = f"{PREFIX}:archiving"
REBUILDS = f"{PREFIX}:rebuilds"
REBUILD_LEASE = f"{PREFIX}:rebuilding"
BACKUP_LEASE = f"{PREFIX}:backing-up"
BACKUP_STATUS = f"{PREFIX}:backup"
RECONCILE_LEASE = f"{PREFIX}:reconciling"
RECONCILED = f"{PREFIX}:reconciled"
RECEIPTS = f"{PREFIX}:receipts"
CONSUMER_GROUP = "documents"
CONSUMER = "runner"

DEDUP_WINDOW = timedelta(hours=1)
DEDUP_IDS = 250_000
"""Event ids remembered per partition. About 100 bytes each, so a partition's window takes at most 25 MB."""
LEASE_TTL = timedelta(seconds=5)
"""A crashed worker's partitions are free after this long; a healthy one renews three times within it."""
JOB_LEASE_TTL = timedelta(seconds=30)
"""Renewed three times within it; another worker can take a crashed worker's job after this time."""
EMBEDDING_CACHE_TTL = timedelta(days=30)


def embedding(sha256: bytes) -> str:
    """Cached vector of one text under one model."""
    return f"{PREFIX}:vec:{sha256.hex()}"


def llm_budget(tenant: str, day: str) -> str:
    """Tokens that a tenant's language model calls took on a day, `YYYY-MM-DD`."""
    return f"{PREFIX}:llm:{tenant}:{day}"


ACCESS_KEYS = f"{PREFIX}:{{access}}:keys"
ACCESS_VERSION = f"{PREFIX}:{{access}}:version"
RATE_TTL = timedelta(minutes=2)
"""A bucket that was left alone for a minute is full again."""


def access_row_pk(key_id: str) -> str:
    """The primary key under which redis-om saves an API key."""
    return f"{{access}}:{key_id}"


def access_bucket(key_id: str, kind: str) -> str:
    """What an API key may still ask for, of one kind."""
    return f"{PREFIX}:{{access}}:rate:{kind}:{key_id}"


def webhooks_key(name: str) -> str:
    """A key of the webhooks, which share a hash tag."""
    return f"{PREFIX}:{{webhooks}}:{name}"


NUMBERS = f"{PREFIX}:{{numbers}}:*"
"""SCAN pattern of every key of NumberKeys."""


class NumberKeys(NamedTuple):
    """Keys of the numbers of one noun's documents in one tenant; `{numbers}` is their hash tag."""

    tenant: str
    noun: str

    @property
    def by_name(self) -> str:
        return f"{PREFIX}:{{numbers}}:{self.noun}:by-name:{self.tenant}"

    @property
    def by_number(self) -> str:
        return f"{PREFIX}:{{numbers}}:{self.noun}:by-number:{self.tenant}"


def reads_key(tenant: str, project: str) -> str:
    """The read ledger of a project."""
    return f"{PREFIX}:reads:{tenant}:{project}"


def row_key(pk: str) -> str:
    """The hash of a redis-om row."""
    return f"{PREFIX}:row:{pk}"


class _Key:
    """An attribute of a class of keys: the class's `tag`, a colon and a name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, keys: "GenerationKeys | PartitionKeys", owner: type) -> str:
        return f"{keys.tag}:{self._name}"


class GenerationKeys(NamedTuple):
    """Keys of one generation of one partition's documents projection."""

    partition: int
    generation: int

    checkpoint = _Key("checkpoint")
    folded_by = _Key("folded-by")
    """The version of the folds that made the generation's first documents."""
    trimmed = _Key("trimmed")
    changes = _Key("changes")
    embed_queue = _Key("embed")
    embed_later = _Key("embed-later")
    dead = _Key("dead")

    @property
    def tag(self) -> str:
        return f"{PREFIX}:{self._slot}"

    @property
    def _slot(self) -> str:
        return f"{{p{self.partition:02d}}}:g{self.generation}"

    def doc(self, document_id: str) -> str:
        return f"{self.tag}:doc:{document_id}"

    def row_pk(self, document_id: str) -> str:
        """The primary key under which redis-om saves a row."""
        return f"{self._slot}:{document_id}"

    def row(self, document_id: str) -> str:
        return row_key(self.row_pk(document_id))

    def listing(self, name: str) -> str:
        return f"{self.tag}:list:{name}"

    @property
    def everything(self) -> tuple[str, str]:
        """SCAN patterns that match every key of the generation; the braces of a hash tag are literal in a glob."""
        return f"{self.tag}:*", row_key(f"{self._slot}:*")


class PartitionKeys(NamedTuple):
    """Keys of one partition; `{pNN}` is its hash tag."""

    partition: int

    log = _Key("log")
    erased = _Key("erased")
    archived = _Key("archived")
    dedup = _Key("dedup")
    dedup_previous = _Key("dedup:previous")
    appended = _Key("appended")
    applied = _Key("applied")
    confirmed = _Key("confirmed")
    lease = _Key("lease")
    fence = _Key("fence")
    generation = _Key("generation")
    generations = _Key("generations")
    rebuild = _Key("rebuild")
    attempts = _Key("attempts")
    redrive = _Key("redrive")
    """Positions of dead letters that the runner should retry."""
    discarded = _Key("discarded")
    letters = _Key("letters")
    """Counts of dead letters by outcome."""
    purge = _Key("purge")
    purging = _Key("purging")
    """The notes that the current purge processes; new notes wait for the next purge."""
    imported = _Key("imported")
    enriched = _Key("enriched")

    @property
    def tag(self) -> str:
        return f"{PREFIX}:{{p{self.partition:02d}}}"

    def of_generation(self, generation: int) -> GenerationKeys:
        return GenerationKeys(self.partition, generation)
