"""Purging the embedded index: a compacted snapshot takes the place of the older ones, and replicas start from it."""

import asyncio
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path

from redis.exceptions import RedisError

from ingest.platform.clock import Clock, system_clock, to_ms
from ingest.platform.connections import Client
from projections.forgetting.purge import Cleaned
from projections.forgetting.receipts import Probe
from projections.search import snapshots
from projections.search.embedded import search
from projections.search.question import Filter, Question
from projections.search.snapshots import SnapshotJob, UnusableSnapshot
from projections.search.waiting import replicas
from projections.vectors.embedder import Embedders

logger = logging.getLogger(__name__)

WAIT_FOR_REPLICAS_S = 30.0


class SnapshotPurge:
    """Purges the snapshots in `folder`; `work` is a folder of this worker's own."""

    def __init__(
        self,
        redis: Client,
        embedders: Embedders,
        snapshot: SnapshotJob,
        folder: Path,
        work: Path,
        clock: Clock = system_clock,
    ) -> None:
        self._redis, self._embedders, self._snapshot = redis, embedders, snapshot
        self._folder, self._work, self._clock = folder, work, clock

    async def clean(self) -> Cleaned | None:
        """Write a compacted snapshot, delete the older ones and trim the feeds; None where none could be written."""
        older = len(list(self._folder.glob("[!.]*"))) if self._folder.exists() else 0
        manifest = await self._snapshot.run(force=True, compact=True)
        return None if manifest is None else Cleaned(manifest.name, older)

    async def probe(self, tenant: str, names: Sequence[str], texts: Sequence[str]) -> Probe:
        """Look for forgotten documents in the newest snapshot: by id, and by searching for what they said."""
        found = await asyncio.to_thread(snapshots.newest, self._folder, (await self._embedders.refresh()).model)
        if found is None:
            return Probe(documents=len(names), queries=0, found=0)
        return await asyncio.to_thread(self._search, *found, tenant, names, texts)

    def _search(
        self, path: Path, manifest: snapshots.SnapshotManifest, tenant: str, names: Sequence[str], texts: Sequence[str]
    ) -> Probe:
        try:
            index = snapshots.load(path, manifest, self._work)
        except UnusableSnapshot as error:
            logger.warning("the probe found no snapshot to search: %s", error)
            return Probe(documents=len(names), queries=0, found=0)
        try:
            gone = set(names)
            found = gone & index.ordinal_of.keys()
            for text in texts:
                question = Question(text=text[:2000], vector=None, mode="lexical", now_ms=to_ms(self._clock()))
                hits = search(index, question, Filter(tenant=tenant, operator=True, as_of_ms=to_ms(self._clock())))
                found |= {hit.id for hit in hits} & gone
            return Probe(documents=len(gone), queries=len(texts), found=len(found))
        finally:
            shutil.rmtree(self._work, ignore_errors=True)

    async def await_readers(self, name: str) -> tuple[int, int]:
        """Wait until every live replica has started from this snapshot or a newer one."""
        deadline = asyncio.get_running_loop().time() + WAIT_FOR_REPLICAS_S
        while True:
            try:
                live = await replicas(self._redis)
            except RedisError:
                live = []
            reloaded = sum(one >= name for _, one in live)
            if reloaded == len(live) or asyncio.get_running_loop().time() > deadline:
                return reloaded, len(live) - reloaded
            await asyncio.sleep(0.2)
