"""Rebuilding documents in processes of their own: one per core, which get the processor time that nothing else needs.

In the worker, a rebuild would be a guest of the interpreter that projects, embeds and renews leases. Run as a program,
it takes part in the current rebuild of documents while that fills partitions: those that no other process has. It ends
early if its stdin is closed, which the end of the worker does.
"""

import asyncio
import logging
import os
import sys
import threading
from asyncio.subprocess import PIPE, Process
from datetime import timedelta

from ingest.ids import new_event_id
from ingest.log.opening import open_to_write
from ingest.platform.connections import connected
from ingest.platform.processes import give_way, load_without_collecting, tune_interpreter, usable_cores
from ingest.platform.settings import from_environment
from ingest.platform.tasks import end
from ingest.secrets.redaction import log_to_stderr
from projections.rebuilding.room import DocumentRebuild, RebuildJob, Rebuilds

logger = logging.getLogger(__name__)

SLICE_S, LOOK_AGAIN_S = 5.0, 0.5
"""How long a process works, and how soon it looks again after it found that others have all partitions."""


class RebuildProcesses:
    """The processes of one worker."""

    def __init__(self, workers: int, partitions: int) -> None:
        """`workers` share the cores of this machine. More processes than partitions would have nothing to fill."""
        self._most = max(1, min(usable_cores(), partitions) // workers)
        self._processes: list[Process] = []
        self._one_at_a_time = asyncio.Lock()

    async def run(self, slice_s: float) -> None:
        """Start those that are missing; returns when all have ended, or after `slice_s`, with them still running."""
        if self._one_at_a_time.locked():  # arq may start the job again before the last run has ended its slice
            return
        async with self._one_at_a_time:
            for process in self._processes:
                if process.returncode:
                    logger.warning("a rebuilding process ended with status %d; another goes on", process.returncode)
            self._processes = [process for process in self._processes if process.returncode is None]
            while len(self._processes) < self._most:
                # -P: a folder of the user named "workers" must not be imported
                command = [sys.executable, "-P", "-m", "workers.rebuilding"]
                self._processes.append(await asyncio.create_subprocess_exec(*command, stdin=PIPE))
            ends = [asyncio.create_task(process.wait()) for process in self._processes]
            await asyncio.wait(ends, timeout=slice_s)
            await end(*ends)

    async def aclose(self) -> None:
        """End them; what they have saved stays."""
        for process in self._processes:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _fill() -> None:
    settings = from_environment(os.environ)
    log_to_stderr(settings)
    async with connected(settings.required_redis_url()) as redis:
        log = await open_to_write(settings, redis)
        who, rebuilds = str(new_event_id()), Rebuilds(redis)
        documents = DocumentRebuild(redis, log, who)
        job = RebuildJob(redis, rebuilds, timedelta(seconds=settings.rebuild_keep), documents, None, who)
        while (current := await rebuilds.current()) is not None and current.fills_documents:
            await job.run(SLICE_S)
            await asyncio.sleep(LOOK_AGAIN_S)
        await job.aclose()


if __name__ == "__main__":
    load_without_collecting()
    give_way()
    # reading waits until the worker ends
    threading.Thread(target=lambda: (os.read(sys.stdin.fileno(), 1), os._exit(1)), daemon=True).start()
    tune_interpreter()
    asyncio.run(_fill())
