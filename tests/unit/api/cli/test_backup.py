"""When `mnemolog up` looks for a backup to restore at all."""

from pathlib import Path
from typing import Any

import pytest

from api.cli.backup import restore_at_start
from ingest.platform.settings import Settings


@pytest.mark.parametrize("changes", [{}, {"backup": "/srv/backups", "restore": "never"}])
def test_nothing_is_looked_for_where_nothing_is_wanted(tmp_path: Path, changes: dict[str, Any]):
    told: list[str] = []
    redis_url = "redis://127.0.0.1:1"  # nobody answers there
    restore_at_start(Settings(redis_url=redis_url, data_dir=tmp_path, cache_dir=tmp_path, **changes), told.append)
    assert told == []
