"""A log that is incomplete, because a restore into it has not ended, takes no writes."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from servers import Server

from api import wiring
from ingest.errors import LogRefused, RestoreUnfinished
from ingest.log.event_log import Entry
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import MANIFEST, RESTORING
from ingest.log.opening import open_to_write
from ingest.log.redis_log import RedisLog
from ingest.platform.connections import Client
from ingest.platform.settings import Settings
from workers import main as worker

PARTITIONS = 4


async def test_a_process_stops_writing_while_the_log_is_incomplete_and_goes_on_after_it(redis: Client):
    log = RedisLog(redis, PARTITIONS)
    await log.create_or_check()
    await redis.hset(MANIFEST, RESTORING, "b-1")
    await log.look_whether_open()
    with pytest.raises(LogRefused, match="restoring backup b-1 into this log was interrupted"):
        await GroupCommit(log).append([(0, Entry("x", b"x"))])
    await redis.hdel(MANIFEST, RESTORING)
    await log.look_whether_open()
    assert await GroupCommit(log).append([(0, Entry("x", b"x"))])


@pytest.mark.parametrize("process", ["api", "worker"])
async def test_a_process_that_had_begun_to_start_before_a_restore_does_not_start(
    redis: Client, valkey: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, process: str
):
    """It read the manifest before the restore, and announces itself after that."""
    changes: dict[str, Any] = {"redis_url": valkey.url, "partitions": PARTITIONS, "embedder": "none"}
    settings = Settings(data_dir=tmp_path / "data", cache_dir=tmp_path / "cache", **changes)

    async def opened(settings: Settings, connected: Client) -> RedisLog:
        log = await open_to_write(settings, connected)
        await redis.hset(MANIFEST, RESTORING, "b-1")
        return log

    where: Any = wiring if process == "api" else worker
    monkeypatch.setattr(where, "open_to_write", opened)
    async with AsyncExitStack() as stack:
        starting = (
            wiring.wire(settings, stack) if where is wiring else where.WorkerProcess(settings).run(asyncio.Event())
        )
        with pytest.raises(RestoreUnfinished):
            await starting
