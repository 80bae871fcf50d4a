"""Composition root of the API process: builds and connects its services for as long as it runs."""

import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from api.api_processes import ApiProcess
from api.monitoring.ops import Metrics, VitalMetrics
from api.native.log import Transfer
from api.services import NativeCall
from ingest.commands.handler import CommandHandler
from ingest.embedded.room import Acknowledged, EmbeddedValkey
from ingest.log.event_log import refuse_if_closed
from ingest.log.group_commit import GroupCommit
from ingest.log.opening import open_to_write
from ingest.log.redis_log import RedisLog
from ingest.platform.connections import Client, connect, retry_until_connected
from ingest.platform.settings import Settings
from mcp_gateway.room import LastWrites
from projections.condensing.operations import Condensing, build_assistant
from projections.dead_letters.room import DeadLetters
from projections.embedding.factory import build_embedder
from projections.embedding.live import LiveEmbedder
from projections.forgetting.room import Forgetting
from projections.health.queries import Diagnose, ProjectionProgress
from projections.health.samples import HealthSampler
from projections.health.watch import Limits, Watch
from projections.index.protocol import IndexService
from projections.index.service import ReplicaService
from projections.index.snapshots import LoadedSnapshot
from projections.index.waiting import work_folder
from projections.operations.claims import Claims
from projections.operations.current import Current
from projections.operations.feedback import GivingFeedback
from projections.operations.inbox import Inbox
from projections.operations.memory import MemoryOperations
from projections.operations.session_cap import SessionCap
from projections.operations.work import Confirming, SlotOperations, WorkOperations
from projections.queries.context import Compile
from projections.queries.documents import DocumentReader
from projections.queries.graph import Graph
from projections.queries.lesson import Lessons
from projections.queries.listed import IntegerIds
from projections.queries.log_events import Audit, LogEvents
from projections.queries.lookup import Lookup
from projections.queries.memory import Memories
from projections.queries.observation import AroundQueries, Observations
from projections.queries.profiles import ProjectProfiles
from projections.queries.recall import Recall
from projections.queries.session import Commits, Sessions, Summaries
from projections.queries.work import Actions, Relations, Slots
from projections.services import Operations, Queries
from projections.store.read_ledger import ReadLedger
from projections.vectors.embedder import Embedder
from projections.webhooks.sending import Sender
from projections.webhooks.subscriptions import Webhooks
from workers.queue import JobQueue

logger = logging.getLogger(__name__)
CONDENSING_WAITS_S = 30.0
"""For the projection of acknowledged events. Reads wait a second, and fail; these are rare, and are work of seconds."""


@dataclass
class Preloaded:
    """Loaded before this process was forked, in memory that it shares with the other processes."""

    embedder: Embedder | None = None
    """The embedder of the settings."""
    snapshot: LoadedSnapshot | None = None

    def take_snapshot(self) -> LoadedSnapshot | None:
        """Return the snapshot, once: the words of documents that are deleted must not stay in memory here."""
        snapshot, self.snapshot = self.snapshot, None
        return snapshot


class Wired(NamedTuple):
    """The application's state while it runs."""

    services: NativeCall
    transfer: Transfer
    metrics: Metrics


async def wire(
    settings: Settings,
    stack: AsyncExitStack,
    api_process: ApiProcess | None = None,
    preloaded: Preloaded | None = None,
) -> Wired:
    """Connect everything; the stack closes it again, connections after the last write."""
    # both raise for invalid settings, before anything is opened
    redis_url, jobs_url = settings.required_redis_url(), settings.jobs_url
    redis = connect(redis_url)
    stack.push_async_callback(redis.aclose)
    log = await retry_until_connected(redis, "to open the log", lambda: open_to_write(settings, redis))
    if (folder := _embedded(settings)) is None:
        appends = GroupCommit(log)
    else:
        # records acknowledged positions for the next start of the embedded server
        acknowledged = Acknowledged(folder)
        stack.callback(acknowledged.close)
        appends = GroupCommit(log, acknowledged.note)
    durability = await appends.confirmations.standing()
    if durability != "fsync" and settings.durability in (None, "memory"):
        logger.warning("acknowledged writes might not be on disk yet: the server's durability is %s", durability)
    stack.push_async_callback(appends.aclose)
    preloaded = preloaded or Preloaded()

    def build(spec: str) -> Embedder:
        if preloaded.embedder is not None and spec == settings.embedder:
            return preloaded.embedder
        return build_embedder(spec, cache=settings.cache_dir, api_key=settings.embedder_key or "")

    embedders = LiveEmbedder(redis, build, settings.named_embedders)
    await retry_until_connected(redis, "to read the embedder", lambda: embedders.start(settings.embedder))
    index = await _index(settings, redis_url, redis, log, embedders, stack, preloaded.take_snapshot())
    documents = DocumentReader(redis, settings.partitions, index.partition_of)
    jobs = await JobQueue.connect(jobs_url)
    stack.push_async_callback(jobs.aclose)
    watch = _watch(settings, redis, index, jobs, stack)
    queries = await _queries(settings, redis, log, watch, index, documents, stack)
    commands = CommandHandler(appends, settings.partitions, durability=settings.durability)
    commands.gate = watch
    current = Current(commands, documents, log, index.wait_for)
    patient = Current(commands, documents, log, partial(index.wait_for, timeout_s=CONDENSING_WAITS_S))
    if settings.observations_per_session:
        commands.admission = SessionCap(current, settings.observations_per_session)
    assistant = build_assistant(settings, redis)
    if assistant is not None:
        stack.push_async_callback(assistant.aclose)
    operations = Operations(
        memories=MemoryOperations(current),
        slots=SlotOperations(current),
        work=WorkOperations(current),
        claims=Claims(current),
        feedback=GivingFeedback(current, queries.reads),
        forgetting=Forgetting(current),
        condensing=Condensing(patient, assistant),
        current=current,
        letters=DeadLetters(redis, log, documents),
        confirming=Confirming(current),
        inbox=Inbox(current),
        webhooks=Webhooks(redis, Sender(private=settings.webhook_private)),
    )
    positions = None if api_process is None else api_process.positions(settings.partitions)
    if positions is not None:
        stack.callback(positions.close)
    services = NativeCall(
        commands, queries, operations, settings.tenant, LastWrites(shared=positions), settings.agent_id,
        settings.agent_scope, settings.memex_half_life_days, index, jobs, redis, watch, source="native",
    )  # fmt: skip
    metrics = Metrics(appends, index)
    queries.context.on_followup = metrics.followups.inc
    queries.recall.on_cached = metrics.cached_answers.inc
    metrics.registry.register(VitalMetrics(watch, commands.refused))
    return Wired(services, Transfer(log, documents), metrics)


def _embedded(settings: Settings) -> Path | None:
    folder = settings.data_dir / "valkey"
    return folder if settings.redis_url == EmbeddedValkey(folder).url else None


def _watch(settings: Settings, redis: Client, index: IndexService, jobs: JobQueue, stack: AsyncExitStack) -> Watch:
    embedded = _embedded(settings)
    health_sampler = HealthSampler(
        redis,
        settings.partitions,
        index,
        log_folder=embedded or (settings.data_dir if settings.disk_floor else None),
        snapshots=settings.snapshots,
        dimensions=lambda: index.embedder.dimensions,
        ping_jobs=jobs.ping if settings.jobs_redis_url else None,
    )
    ceilings = Limits.parse(
        settings.memory_ceiling, settings.lag_ceiling, settings.disk_floor, embedded=embedded is not None
    )
    watch = Watch(health_sampler, ceilings)
    watch.start()
    stack.push_async_callback(watch.aclose)
    return watch


async def _index(
    settings: Settings,
    redis_url: str,
    redis: Client,
    log: RedisLog,
    embedders: LiveEmbedder,
    stack: AsyncExitStack,
    preloaded: LoadedSnapshot | None,
) -> IndexService:
    """The index on a search engine if the settings name one, otherwise in this process. Registers the process as
    running.

    Raises like `open_to_write` if the log was closed since.
    """
    # also removes the working copies of earlier releases, which can contain deleted documents
    name = work_folder(settings.cache_dir / "replicas").name
    if (url := settings.search_engine) is not None:
        from projections.search_engine.room import EngineService  # only with a search engine

        engine = connect(url, connections=4)
        stack.push_async_callback(engine.aclose)
        service = EngineService(
            redis, engine, url, settings.partitions, embedders, name, read_wait_s=settings.read_wait,
            history=log.history, look_at_log=log.look_whether_open,
        )  # fmt: skip
    else:
        feeds = connect(redis_url, connections=settings.partitions + 4)
        stack.push_async_callback(feeds.aclose)
        service = ReplicaService(
            feeds, settings.partitions, settings.snapshots, embedders, name, read_wait_s=settings.read_wait,
            history=log.history, look_at_log=log.look_whether_open, preloaded=preloaded,
        )  # fmt: skip
    stack.push_async_callback(service.aclose)
    await retry_until_connected(redis, "to register the process", service.beat)
    # checked after registering: either a command that closes the log sees this process, or this check sees the close
    await retry_until_connected(redis, "to check the log again", lambda: refuse_if_closed(redis))
    service.start()
    return service


async def _queries(
    settings: Settings,
    redis: Client,
    log: RedisLog,
    watch: Watch,
    index: IndexService,
    documents: DocumentReader,
    stack: AsyncExitStack,
) -> Queries:
    reads = ReadLedger(redis, settings.read_ledger)
    stack.push_async_callback(reads.aclose)
    recall = Recall(index, documents, note_read=reads.note)
    await recall.warm_up()
    stack.callback(recall.close)
    lookup = Lookup(index, documents)
    profiles = ProjectProfiles(index, documents)
    backup_every = timedelta(seconds=settings.backup_every) if settings.backup_target else None
    llm = settings.llm.rpartition("|")[2].strip()
    return Queries(
        recall=recall,
        context=Compile(index, documents, recall, profiles, note_read=reads.note),
        numbers=cache(partial(IntegerIds, redis)),
        lookup=lookup,
        memories=Memories(documents, lookup, index),
        lessons=Lessons(index, documents, recall.vectors),
        observations=Observations(index, documents),
        sessions=Sessions(documents),
        summaries=Summaries(documents),
        slots=Slots(documents, lookup),
        actions=Actions(documents),
        relations=Relations(documents, lookup),
        commits=Commits(documents),
        log=LogEvents(log, index, documents),
        reads=reads,
        graph=Graph(index, documents),
        profiles=profiles,
        around=AroundQueries(index, documents, recall),
        audit=Audit(log),
        diagnose=Diagnose(redis, watch, index, documents, llm=llm, backup_every=backup_every),
        progress=ProjectionProgress(redis, log, index),
    )
