"""Composition root of the API process: settings in, a Starlette application out."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware

from api import ops
from api.auth import BearerAuth, SameOrigin
from api.errors import HANDLERS
from api.native import admin, reads, writes
from api.services import Services
from ingest.commands.handler import CommandHandler
from ingest.connections import connect
from ingest.errors import InvalidSetting
from ingest.log.group_commit import GroupCommit
from ingest.log.redis_log import RedisLog
from ingest.settings import Settings
from ingest.tuning import tune_interpreter
from mcp_gateway.server import Gateway
from projections.embedding.factory import build_embedder
from projections.index.service import ReplicaService
from projections.index.work_folder import work_folder
from projections.queries import Browse, Compile, Queries, Recall
from projections.queries.documents import DocumentReader
from workers.queue import JobQueue

logger = logging.getLogger(__name__)


def create_app(settings: Settings) -> Starlette:
    """The application. Connections open when it starts and close, after the last write, when it stops."""
    if settings.redis_url is None:
        raise InvalidSetting("REDIS_URL is not set; `mnemolog up` starts an embedded server and sets it")
    redis_url = settings.redis_url

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            redis = connect(redis_url)
            stack.push_async_callback(redis.aclose)
            feeds = connect(redis_url, connections=settings.partitions + 4)
            stack.push_async_callback(feeds.aclose)
            log = RedisLog(redis, settings.partitions)
            await log.create_or_check()
            if (durability := await log.durability()) != "fsync":
                logger.warning("an acknowledged write is not on disk yet: the server's durability is %s", durability)
            writes_ = GroupCommit(log)
            stack.push_async_callback(writes_.aclose)
            embedder = await asyncio.to_thread(build_embedder, settings.embedder, directory=settings.model_directory)
            work = work_folder(settings.cache_dir / "replicas")
            replica = ReplicaService(
                feeds, settings.partitions, work, settings.snapshots, embedder.model, embedder.dimensions
            )
            replica.start()
            stack.push_async_callback(replica.aclose)
            documents = DocumentReader(redis, settings.partitions)
            recall = Recall(replica, documents, embedder)
            await recall.warm_up()
            stack.callback(recall.close)
            queries = Queries(recall, Compile(replica, documents, recall), Browse(redis, log, replica, documents))
            jobs = await JobQueue.connect(redis_url)
            stack.push_async_callback(jobs.aclose)
            commands = CommandHandler(writes_, settings.partitions)
            app.state.services = Services(commands, queries, replica, jobs, settings.tenant)
            app.state.metrics = ops.Metrics(writes_, replica)
            gateway.connect(commands, queries, settings.tenant)
            await stack.enter_async_context(gateway.running())
            tune_interpreter()
            yield

    gateway = Gateway(settings.host)
    return Starlette(
        routes=[*writes.ROUTES, *reads.ROUTES, *admin.ROUTES, *ops.ROUTES, gateway.route],
        lifespan=lifespan,
        exception_handlers=HANDLERS,
        middleware=[
            Middleware(ops.Measure),
            Middleware(BearerAuth, settings.secret) if settings.secret else Middleware(SameOrigin, settings.host),
            Middleware(writes.Shortcut),
        ],
    )
