"""The memory of the parent of API processes."""

from pathlib import Path
from weakref import ref

from api.cli.api_processes import ApiProcesses
from ingest.platform.settings import from_environment
from projections.index import snapshots
from projections.index.replica import FeedPosition, IndexReplica


def test_the_snapshot_is_freed_after_a_fork(tmp_path: Path):
    settings = from_environment({"MNEMOLOG_DATA_DIR": str(tmp_path), "MNEMOLOG_EMBEDDER": "none"})
    at = dict.fromkeys(range(settings.partitions), FeedPosition())
    snapshots.save(IndexReplica(0, "none"), at, settings.snapshots, "01")
    parent = ApiProcesses(settings)
    parent.load()
    assert parent.preloaded.snapshot is not None
    index = ref(parent.preloaded.snapshot[0])
    parent.unload()
    assert index() is None
