"""Forgetting and retiring: what this room hands to the API, the workers and the importers.

`Forgetting` forgets one document, a session, a user or a project at once; receipts are requests that a job carries out.
`purging_jobs` are the jobs that carry them out, delete what was made of forgotten texts, and retire silent sessions.
Without this room nothing can be deleted; nothing else depends on it.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from ingest.log.position import Token
from ingest.platform.connections import Client
from ingest.platform.settings import Settings
from projections.forgetting.forget import Clear as Clear
from projections.forgetting.forget import Forgetting as Forgetting
from projections.forgetting.forget import Forgotten as Forgotten
from projections.forgetting.forget import Sweep as Sweep
from projections.forgetting.forget import user_digest as user_digest
from projections.forgetting.jobs import EraseDeadLetters, ForgetJob, RetireJob
from projections.forgetting.purge import IndexPurge, Purge, SnapshotPurge
from projections.index.snapshots import SnapshotJob
from projections.operations.current import Current
from projections.rebuilding.job import RebuildJob
from projections.store.receipts import Receipt as Receipt
from projections.store.receipts import all_receipts as all_receipts
from projections.store.receipts import load_receipt as load_receipt
from projections.store.receipts import save_receipt as save_receipt
from projections.vectors.embedder import Embedders

if TYPE_CHECKING:
    from ingest.log.archive.sealing import ArchiveJob

EVERY_S = 60.0


def purging_jobs(
    settings: Settings,
    redis: Client,
    engine: Client | None,
    current: Current,
    embedders: Embedders,
    snapshots: SnapshotJob,
    rebuilding: RebuildJob,
    archive: "ArchiveJob | None",
    wait: Callable[[Token], Awaitable[None]],
    erase_dead_letters: EraseDeadLetters,
) -> list[tuple[str, Callable[..., Awaitable[object]], float]]:
    """The jobs by name, with the seconds between two runs. `engine` is the search engine that has the index, if any."""
    if engine is None:
        index: IndexPurge = SnapshotPurge(redis, embedders, snapshots, settings.snapshots)
    else:
        from projections.forgetting.engine_purge import SearchEnginePurge  # only with a search engine

        index = SearchEnginePurge(redis, engine, settings.partitions)
    purge = Purge(redis, settings.partitions, embedders, index, rebuilding, archive=archive)
    jobs: list[tuple[str, Callable[..., Awaitable[object]], float]] = [
        ("purge", purge.run_if_wanted, settings.purge_every),
        ("forget", ForgetJob(redis, current, purge, wait, erase_dead_letters).run, EVERY_S),
    ]
    if (days := settings.retain_sessions_days) is not None:
        retiring = RetireJob(redis, current, embedders, timedelta(days=days))
        # a minute; less where sessions are kept for less, as in a test
        jobs.append(("retire", retiring.run, min(EVERY_S, max(1.0, days * 86_400 / 4))))
    return jobs
