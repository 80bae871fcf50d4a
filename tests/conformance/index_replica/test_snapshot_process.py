"""Snapshots that a process of their own writes."""

import asyncio
from pathlib import Path
from subprocess import CalledProcessError

import pytest
from replica_pen import PARTITIONS, Pen
from servers import Server

from projections.embedding.live import LiveEmbedder
from projections.vectors.embedder import NoEmbedder
from workers.snapshotting import SubprocessSnapshotJob


@pytest.fixture
async def job(pen: Pen, valkey: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SubprocessSnapshotJob:
    for name, value in {
        "REDIS_URL": valkey.url,
        "MNEMOLOG_DATA_DIR": str(tmp_path),
        "MNEMOLOG_CACHE_DIR": str(tmp_path / "cache"),
        "MNEMOLOG_PARTITIONS": str(PARTITIONS),
    }.items():
        monkeypatch.setenv(name, value)
    embedders = LiveEmbedder(pen.redis, lambda spec: NoEmbedder(), frozenset())
    await embedders.start("none")
    return SubprocessSnapshotJob(pen.redis, PARTITIONS, tmp_path / "snapshots", embedders, every=1)


async def test_another_process_writes_a_snapshot_of_everything(pen: Pen, job: SubprocessSnapshotJob):
    await pen.add_some(5)
    manifest = await job.run(force=True)
    assert manifest is not None
    assert manifest.documents == 15


async def test_a_process_that_fails_leaves_no_snapshot(
    pen: Pen, job: SubprocessSnapshotJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MNEMOLOG_PARTITIONS", "none")
    with pytest.raises(CalledProcessError):
        await job.run(force=True)
    assert not [*(tmp_path / "snapshots").glob("*")]


async def test_closing_ends_the_process(pen: Pen, job: SubprocessSnapshotJob, tmp_path: Path):
    running = asyncio.create_task(job.run(force=True))
    await asyncio.sleep(0.3)
    await job.aclose()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not [*(tmp_path / "snapshots").glob("*")]
