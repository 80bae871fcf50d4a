"""Snapshots in a process of their own: the index of all documents takes memory there, not in the worker.

Run as a program, it writes one snapshot and prints its manifest. It ends early if its stdin is closed, which the end of
the worker does.
"""

import asyncio
import os
import sys
import threading
from asyncio.subprocess import PIPE
from functools import partial
from subprocess import CalledProcessError

from msgspec import json

from ingest.platform.connections import connect
from ingest.platform.processes import load_without_collecting
from ingest.platform.settings import from_environment
from ingest.secrets.redaction import log_to_stderr
from projections.embedding.factory import build_embedder
from projections.embedding.live import LiveEmbedder
from projections.index.snapshots import SnapshotJob, SnapshotManifest


class SubprocessSnapshotJob(SnapshotJob):
    """The job of a worker, which decides and holds the lease; another process loads the index and writes."""

    async def write(self, *, compact: bool) -> SnapshotManifest:
        """See SnapshotJob. Raises CalledProcessError; the worker's log has the error of the process."""
        # -P: a folder of the user named "workers" must not be imported
        command = [sys.executable, "-P", "-m", "workers.snapshotting", *["compact"] * compact]
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        assert process.stdout is not None
        try:
            printed = await process.stdout.read()
            if status := await process.wait():
                raise CalledProcessError(status, command)
            return json.decode(printed, type=SnapshotManifest)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def _snapshot(*, compact: bool) -> SnapshotManifest:
    settings = from_environment(os.environ)
    log_to_stderr(settings)
    redis = connect(settings.redis_url or "")
    build = partial(build_embedder, cache=settings.cache_dir, api_key=settings.embedder_key or "")
    embedders = LiveEmbedder(redis, build, settings.named_embedders)
    job = SnapshotJob(redis, settings.partitions, settings.snapshots, embedders, settings.snapshot_every)
    try:
        return await job.write(compact=compact)
    finally:
        await redis.aclose()


if __name__ == "__main__":
    os.nice(5)
    load_without_collecting()
    # reading waits until the worker ends
    threading.Thread(target=lambda: (os.read(sys.stdin.fileno(), 1), os._exit(1)), daemon=True).start()
    sys.stdout.buffer.write(json.encode(asyncio.run(_snapshot(compact="compact" in sys.argv))))
