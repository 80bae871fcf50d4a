"""Snapshots in a process of their own: the index of all documents takes memory there, not in the worker.

Run as a program, it writes one snapshot and prints its manifest. It ends early if its stdin is closed, which the end of
the worker does.
"""

import asyncio
import logging
import os
import sys
import threading
from asyncio.subprocess import PIPE
from functools import partial

from msgspec import json

from ingest.errors import MnemologError
from ingest.platform.connections import connect
from ingest.platform.processes import load_without_collecting
from ingest.platform.settings import from_environment
from ingest.secrets.redaction import formatter_of
from projections.embedding.factory import build_embedder
from projections.embedding.live import LiveEmbedder
from projections.search.snapshots import SnapshotJob, SnapshotManifest
from projections.search.waiting import work_folder


class SnapshotFailed(MnemologError):
    """The process that was to write a snapshot failed; the worker's log has its error."""

    code = "snapshot_failed"


class ApartSnapshotJob(SnapshotJob):
    """The job of a worker, which decides and holds the lease; another process loads the index and writes."""

    async def write(self, *, compact: bool) -> SnapshotManifest:
        command = [sys.executable, "-m", "workers.snapshotting", *["compact"] * compact]
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        assert process.stdout is not None
        try:
            printed = await process.stdout.read()
            if status := await process.wait():
                raise SnapshotFailed(f"the process that writes snapshots ended with status {status}")
            return json.decode(printed, type=SnapshotManifest)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def _snapshot(*, compact: bool) -> SnapshotManifest:
    settings = from_environment(os.environ)
    handler = logging.StreamHandler()
    handler.setFormatter(formatter_of(settings))
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler])
    redis = connect(settings.redis_url or "")
    build = partial(build_embedder, directory=settings.model_directory, api_key=settings.embedder_key or "")
    embedders = LiveEmbedder(redis, build, settings.named_embedders)
    work = work_folder(settings.cache_dir / "snapshots")
    job = SnapshotJob(redis, settings.partitions, settings.snapshots, work, embedders, settings.snapshot_every)
    try:
        return await job.write(compact=compact)
    finally:
        await redis.aclose()


def _end_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    os.nice(5)
    load_without_collecting()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.stdout.buffer.write(json.encode(asyncio.run(_snapshot(compact="compact" in sys.argv))))
